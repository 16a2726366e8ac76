"""What a job is promised for pods whose scheduling gates are closed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubebase.resource_vector import CPU, Registry
from pumice.engine.events import Changed, Event
from pumice.kube.resources import POD_GROUPS, PODS
from pumice.kube.watch.change_queue import Change
from pumice.model.specs import JobPhase, JobSpec, TaskSpec
from pumice.scheduler.cluster_cache import ClusterCache

GATES = [{"name": "quota"}]


def pod(name: str = "a", *, group: str = "g", cpu: str = "1", deleted: bool = False, **spec: Any) -> Change[Any]:
    about: dict[str, Any] = {"name": name, "namespace": "ns", "annotations": {"scheduling.k8s.io/group-name": group}}
    if deleted:
        about["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    document = {"metadata": about, "spec": {"containers": [container], **spec}, "status": {"phase": "Pending"}}
    return Change("pods", f"ns/{name}", f"uid-{name}", "1", None, PODS.decode(msgspec.json.encode(document)))


def gone(name: str = "a") -> Change[Any]:
    return Change("pods", f"ns/{name}", f"uid-{name}", "9", pod(name).new, None)


def group(name: str = "g", phase: str = "Inqueue", **spec: Any) -> Change[Any]:
    document = {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"minMember": 2, "minResources": {"cpu": "2"}, **spec},
        "status": {"phase": phase},
    }
    found = POD_GROUPS.decode(msgspec.json.encode(document))
    return Change("podgroups.scheduling.volcano.sh", f"ns/{name}", f"uid-{name}", "1", None, found)


def promises(events: list[Event]) -> dict[str, int]:
    """The cpu that each job in the events is promised, in milli."""
    jobs = [event.object for event in events if isinstance(event, Changed) and isinstance(event.object, JobSpec)]
    return {job.name: job.min_resources[CPU] for job in jobs}


class World:
    """A cache, and what it told last."""

    def __init__(self) -> None:
        self.cache = ClusterCache(Registry())

    def see(self, change: Change[Any]) -> dict[str, int]:
        return promises(list(self.cache.events_for(change)))


@pytest.fixture
def world() -> World:
    return World()


def test_nothing_is_promised_for_gated_pods(world: World) -> None:
    assert world.see(group()) == {"g": 2000}
    assert world.see(pod("a", schedulingGates=GATES)) == {"g": 1000}
    assert world.see(pod("b", schedulingGates=GATES)) == {"g": 0}
    assert world.see(pod("c", schedulingGates=GATES)) == {}, "a promise is never below 0"


def test_open_gates_restore_the_promise(world: World) -> None:
    world.see(group())
    world.see(pod(schedulingGates=GATES))
    events = list(world.cache.events_for(pod()))
    assert promises(events) == {"g": 2000}
    assert any(isinstance(event, Changed) and isinstance(event.object, TaskSpec) for event in events)


def test_order_of_arrival_does_not_matter(world: World) -> None:
    assert world.see(pod(schedulingGates=GATES)) == {}
    assert world.see(group()) == {"g": 1000}


@pytest.mark.parametrize("change", [gone(), pod(deleted=True, schedulingGates=GATES)])
def test_deleted_pod_is_gated_no_more(world: World, change: Change[Any]) -> None:
    world.see(group())
    assert world.see(pod(schedulingGates=GATES)) == {"g": 1000}
    assert world.see(change) == {"g": 2000}


def test_gated_pod_changes_its_job_and_its_request(world: World) -> None:
    world.see(group())
    world.see(group("other"))
    world.see(pod(schedulingGates=GATES))
    assert world.see(pod(cpu="500m", schedulingGates=GATES)) == {"g": 1500}
    assert world.see(pod(cpu="500m", group="other", schedulingGates=GATES)) == {"g": 2000, "other": 1500}


def test_pods_of_other_schedulers_do_not_count(world: World) -> None:
    world.see(group())
    assert world.see(pod(schedulingGates=GATES, schedulerName="default-scheduler")) == {}
    assert world.see(pod(schedulingGates=GATES, schedulerName="volcano")) == {"g": 1000}


def test_group_without_min_resources_is_left_alone(world: World) -> None:
    list(world.cache.events_for(group(minResources={})))
    assert world.see(pod(schedulingGates=GATES)) == {}


def test_assumed_phase_is_kept(world: World) -> None:
    world.see(group(phase="Pending"))
    world.cache.assume_enqueued("ns/g")
    events = list(world.cache.events_for(pod(schedulingGates=GATES)))
    jobs = [event.object for event in events if isinstance(event, Changed) and isinstance(event.object, JobSpec)]
    assert [job.phase for job in jobs] == [JobPhase.INQUEUE]
