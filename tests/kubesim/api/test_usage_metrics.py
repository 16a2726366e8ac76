"""Metrics of nodes and pods: what running pods request."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kubesim.api.requests import ObjectSelection, ReadOptions, Target, parse_selection
from kubesim.api.status import ApiError
from kubesim.api.usage_metrics import UsageReader
from tests.support.apiserver import memory_api
from tests.support.simulated import pod

PODS = (
    ("busy", "n", "Running", [{"cpu": "1500m", "memory": "1Gi"}, {"cpu": "1"}]),
    ("small", "n", "Running", [{"memory": "512Mi"}]),
    ("waiting", "n", "Pending", [{"cpu": "8"}]),
    ("over", "n", "Succeeded", [{"cpu": "8"}]),
)


def metrics(plural: str, name: str = "", **query: str) -> Any:
    """All metrics of a kind, or those of one object, of a cluster with the pods above."""

    async def run() -> Any:
        async with memory_api() as api:
            for node in ("m", "n"):
                await api.create("nodes", "", {"metadata": {"name": node}})
            for pod_name, node, phase, requests in PODS:
                containers = [
                    {"name": f"c{number}", "image": "i", "resources": {"requests": amounts}}
                    for number, amounts in enumerate(requests)
                ]
                wanted = pod(pod_name, node=node, containers=containers)
                wanted["metadata"]["labels"] = {"app": pod_name}
                await api.create("pods", "default", wanted)
                status = {"phase": phase}
                await api.modify(
                    "pods", "default", pod_name, lambda found, s=status: found["status"].update(s), subresource="status"
                )
            resource = api.registry.find("metrics.k8s.io", "v1beta1", plural)
            assert resource
            target = Target(resource, "default" if resource.namespaced else "", name)
            reader = UsageReader(api, api.reads, 0.0)
            if name:
                return json.loads(reader.get(target).value)
            chosen = parse_selection(resource, query) if query else ObjectSelection()
            return [json.loads(record.value) for record in reader.list(target, chosen, ReadOptions()).records]

    return asyncio.run(run())


def test_nodes_use_what_their_running_pods_request() -> None:
    assert {found["metadata"]["name"]: found["usage"] for found in metrics("nodes")} == {
        "m": {"cpu": "0", "memory": "0"},
        "n": {"cpu": "2500m", "memory": "1536Mi"},
    }


def test_pods_are_listed_by_container_while_they_run() -> None:
    found = metrics("pods")
    assert [one["metadata"]["name"] for one in found] == ["busy", "small"]
    assert found[0]["containers"] == [
        {"name": "c0", "usage": {"cpu": "1500m", "memory": "1Gi"}},
        {"name": "c1", "usage": {"cpu": "1", "memory": "0"}},
    ]
    assert found[0]["timestamp"] == "1970-01-01T00:00:00Z"


def test_labels_of_pods_select_their_metrics() -> None:
    (found,) = metrics("pods", labelSelector="app=small")
    assert found["metadata"]["labels"] == {"app": "small"}


def test_pod_that_does_not_run_has_no_metrics() -> None:
    assert metrics("pods", "busy")["kind"] == "PodMetrics"
    with pytest.raises(ApiError, match=r'pods\.metrics\.k8s\.io "waiting" not found'):
        metrics("pods", "waiting")
