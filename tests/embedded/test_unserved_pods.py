"""Pods for a scheduler that does not run: one event for each, and none for the others."""

from __future__ import annotations

import asyncio
from typing import Any

from kubesim.api.requests import Target, WriteOptions
from kubesim.api.subresources import create_binding
from kubesim.clock import Clock
from pumice.embedded.embedded_cluster import served_schedulers
from pumice.embedded.unserved_pods import UnservedPods, unserved_message
from tests.support.apiserver import memory_api
from tests.support.simulated import pod


def events_after(*pods: dict[str, Any], bind: str = "", default_scheduler: bool = False) -> dict[str, list[str]]:
    """The messages on each pod, once all that wait have been looked at; the pod ``bind`` is bound before that."""

    async def run() -> dict[str, list[str]]:
        async with memory_api() as api, asyncio.timeout(30):
            served = served_schedulers(default_scheduler=default_scheduler)
            work = asyncio.create_task(UnservedPods(api, Clock(1.0), served, wait_seconds=0.05).run())
            for wanted in pods:
                await api.create("pods", "default", wanted)
            if bind:
                resource = api.registry.stored("pods")
                assert resource
                target = Target(resource, "default", bind, "binding")
                body = {"metadata": {"name": bind}, "target": {"kind": "Node", "name": "n"}}
                await create_binding(api, target, body, WriteOptions(), api.new_context())
            last = pod("last", schedulerName="absent")
            await api.create("pods", "default", last)
            while not any(event["involvedObject"]["name"] == "last" for event in api.list("events")):
                await asyncio.sleep(0.01)
            await api.modify("pods", "default", "last", lambda found: found["metadata"].update(labels={"a": "b"}))
            await asyncio.sleep(0.1)
            work.cancel()
            found: dict[str, list[str]] = {}
            for event in api.list("events"):
                assert (event["type"], event["reason"], event["count"]) == ("Warning", "FailedScheduling", 1)
                found.setdefault(event["involvedObject"]["name"], []).append(event["message"])
            return found

    found = asyncio.run(run())
    assert found.pop("last") == [unserved_message("absent")]
    return found


def test_a_pod_without_scheduler_name_gets_one_event() -> None:
    assert events_after(pod("plain")) == {
        "plain": [
            "no scheduler named 'default-scheduler' runs in this cluster: set schedulerName: pumice in the pod, or in "
            "the template that it is made from; pumice up --default-scheduler places pods that name no scheduler"
        ]
    }


def test_served_and_bound_pods_get_no_event() -> None:
    assert not events_after(
        pod("ours", schedulerName="pumice"), pod("theirs", schedulerName="volcano"), pod("bound", node="node-000")
    )
    assert not events_after(pod("plain"), default_scheduler=True)


def test_a_pod_that_another_scheduler_binds_gets_no_event() -> None:
    assert not events_after(pod("quick", schedulerName="another"), bind="quick")
