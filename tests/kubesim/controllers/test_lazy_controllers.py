"""Workloads whose controllers start with the first object of their kind, on simulated nodes."""

from __future__ import annotations

import sys
from typing import Any

from kubesim.clock import stamp
from kubesim.controllers.lazy_start import LAZY_CONTROLLERS
from tests.support.simulated import Cluster, eventually, run, scheduled
from tests.support.workloads import template


def ready_pods(c: Cluster, app: str = "web") -> list[str]:
    return sorted(
        pod["metadata"]["name"]
        for pod in c.api.list("pods")
        if pod["metadata"]["labels"]["app"] == app
        and any(entry["type"] == "Ready" and entry["status"] == "True" for entry in pod["status"].get("conditions", ()))
    )


def images(c: Cluster) -> list[str]:
    return [pod["spec"]["containers"][0]["image"] for pod in c.api.list("pods")]


async def change_image(c: Cluster, resource: str, image: str) -> None:
    def edit(found: dict[str, Any]) -> None:
        found["spec"]["template"]["spec"]["containers"][0]["image"] = image

    await c.api.modify(resource, "default", "w", edit)


def workload(**spec: Any) -> dict[str, Any]:
    whole = template()
    whole["spec"]["terminationGracePeriodSeconds"] = 1
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": whole, **spec}
    return {"metadata": {"name": "w"}, "spec": spec}


def test_stateful_set_scales_updates_and_keeps_its_history() -> None:
    async def scenario() -> None:
        async with scheduled() as c:
            await c.api.create("statefulsets.apps", "default", workload(replicas=2))
            await eventually(lambda: ready_pods(c) == ["w-0", "w-1"])
            await change_image(c, "statefulsets.apps", "web:2")
            await eventually(lambda: images(c) == ["web:2", "web:2"])
            found = c.api.read("statefulsets.apps", "default", "w")
            assert found
            await eventually(lambda: len(c.api.list("controllerrevisions.apps")) == 2)
            await c.api.modify("statefulsets.apps", "default", "w", lambda newest: newest["spec"].update(replicas=1))
            await eventually(lambda: ready_pods(c) == ["w-0"])
            await c.api.delete("statefulsets.apps", "default", "w", propagation="Background")
            await eventually(lambda: not c.api.list("pods") and not c.api.list("controllerrevisions.apps"))

    run(scenario())


def test_stateful_set_makes_claims_and_deletes_them_by_its_policy() -> None:
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

    def claims(c: Cluster) -> list[str]:
        return [found["metadata"]["name"] for found in c.api.list("persistentvolumeclaims")]

    async def scenario() -> None:
        async with scheduled() as c:
            wanted = workload(
                replicas=2,
                podManagementPolicy="Parallel",  # without a StorageClass, pods wait for their volumes
                volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": storage}],
                persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete", "whenDeleted": "Delete"},
            )
            await c.api.create("statefulsets.apps", "default", wanted)
            await eventually(lambda: claims(c) == ["data-w-0", "data-w-1"])
            await c.api.modify("statefulsets.apps", "default", "w", lambda newest: newest["spec"].update(replicas=1))
            await eventually(lambda: claims(c) == ["data-w-0"])
            await c.api.delete("statefulsets.apps", "default", "w", propagation="Background")
            await eventually(lambda: not claims(c))

    run(scenario())


def test_daemon_set_follows_nodes_and_its_template() -> None:
    async def scenario() -> None:
        async with scheduled() as c:
            await c.api.create("daemonsets.apps", "default", workload())
            await eventually(lambda: len(ready_pods(c)) == 1)
            await change_image(c, "daemonsets.apps", "web:2")
            await eventually(lambda: images(c) == ["web:2"])

            def choose(found: dict[str, Any]) -> None:
                found["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "fast"}

            await c.api.modify("daemonsets.apps", "default", "w", choose)
            await eventually(lambda: not c.api.list("pods"))
            await c.api.modify("nodes", "", "node-000", lambda node: node["metadata"]["labels"].update(disk="fast"))
            await eventually(lambda: len(ready_pods(c)) == 1)

    run(scenario())


def test_replication_controller_adopts_and_replaces_pods() -> None:
    async def scenario() -> None:
        async with scheduled() as c:
            orphan = {"metadata": {"name": "orphan", "labels": {"app": "web"}}, "spec": template()["spec"]}
            await c.api.create("pods", "default", orphan)
            wanted = workload(replicas=2, selector={"app": "web"})
            await c.api.create("replicationcontrollers", "default", wanted)
            await eventually(lambda: len(ready_pods(c)) == 2)
            assert "orphan" in ready_pods(c)
            await c.api.delete("pods", "default", "orphan", grace=0)
            await eventually(lambda: len(ready_pods(c)) == 2)
            status = (c.api.read("replicationcontrollers", "default", "w") or {})["status"]
            assert (status["replicas"], "terminatingReplicas" in status) == (2, False)

    run(scenario())


def test_service_lists_its_ready_pods() -> None:
    async def scenario() -> None:
        async with scheduled() as c:
            spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
            await c.api.create("services", "default", {"metadata": {"name": "web"}, "spec": spec})
            await c.api.create("statefulsets.apps", "default", workload(replicas=2))
            (resource,) = ["endpointslices.discovery.k8s.io"]

            def listed() -> int:
                return sum(len(found.get("endpoints", ())) for found in c.api.list(resource))

            def subsets() -> list[int]:
                found = (c.api.read("endpoints", "default", "web") or {}).get("subsets") or []
                return [len(subset.get("addresses", ())) for subset in found]

            await eventually(lambda: listed() == 2 and subsets() == [2])  # written one after the other
            await c.api.delete("services", "default", "web")
            await eventually(lambda: not c.api.list("endpoints") and not c.api.list(resource))

    run(scenario())


def test_cron_job_makes_the_job_that_is_due() -> None:
    async def scenario() -> None:
        async with scheduled() as c:
            pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "sum"}]}
            annotations = {"kubesim.dev/run-seconds": "1"}
            job = {"spec": {"template": {"metadata": {"annotations": annotations}, "spec": pod}}}
            spec = {"schedule": "* * * * *", "suspend": True, "jobTemplate": job}
            await c.api.create("cronjobs.batch", "default", {"metadata": {"name": "c"}, "spec": spec})

            def overdue(found: dict[str, Any]) -> None:
                found["status"] = {"lastScheduleTime": stamp(c.clock.now() - 120)}

            await c.api.modify("cronjobs.batch", "default", "c", overdue, subresource="status")
            await c.api.modify("cronjobs.batch", "default", "c", lambda found: found["spec"].update(suspend=False))
            await eventually(lambda: c.api.list("jobs.batch"))
            await eventually(
                lambda: (c.api.read("cronjobs.batch", "default", "c") or {})["status"].get("lastSuccessfulTime")
            )

    run(scenario())


def test_lazy_controllers_name_modules_with_a_run_function() -> None:
    async def scenario() -> None:
        async with scheduled() as c:
            for resource in LAZY_CONTROLLERS:
                assert c.api.registry.stored(resource)

    run(scenario())
    for module in LAZY_CONTROLLERS.values():
        __import__(module)
        assert callable(sys.modules[module].__dict__["run"])
