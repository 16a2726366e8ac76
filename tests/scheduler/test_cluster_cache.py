"""What the engine is told while a decision is under way."""

from __future__ import annotations

from typing import Any

import msgspec

from kubebase.resource_vector import Registry
from pumice.engine.events import BindFailed, Changed, EvictFailed, Gone
from pumice.kube.decode import api_types
from pumice.kube.decode.manifest_errors import ObjectError
from pumice.kube.resources import POD_GROUPS, PODS
from pumice.kube.watch.change_queue import Change
from pumice.model.specs import JobPhase, JobSpec, TaskSpec, TaskStatus
from pumice.scheduler.cluster_cache import ClusterCache


def pod(
    *, node: str = "", phase: str = "Pending", deleted: bool = False, uid: str = "u1", **more: Any
) -> Change[api_types.Pod]:
    about: dict[str, Any] = {"name": "a", "namespace": "ns", "annotations": {"scheduling.k8s.io/group-name": "g"}}
    if deleted:
        about["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    document = {
        "metadata": about,
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "nodeName": node, **more},
        "status": {"phase": phase},
    }
    found = PODS.decode(msgspec.json.encode(document))
    return Change("pods", "ns/a", uid, "1", None, found)


def gone(uid: str = "u1") -> Change[api_types.Pod]:
    return Change("pods", "ns/a", uid, "9", pod().new, None)


def group(phase: str, uid: str = "g1") -> Change[api_types.PodGroup]:
    document = {"metadata": {"name": "g", "namespace": "ns"}, "spec": {"minMember": 1}, "status": {"phase": phase}}
    return Change(
        "podgroups.scheduling.volcano.sh", "ns/g", uid, "1", None, POD_GROUPS.decode(msgspec.json.encode(document))
    )


def task(mirror: ClusterCache, change: Change[Any]) -> TaskSpec:
    (event,) = mirror.events_for(change)
    assert isinstance(event, Changed) and isinstance(event.object, TaskSpec)
    return event.object


def test_cluster_cache_emits_no_event_for_unchanged_pod() -> None:
    mirror = ClusterCache(Registry())
    task(mirror, pod())
    assert list(mirror.events_for(pod())) == []
    task(mirror, pod(phase="Running", node="n1"))
    list(mirror.events_for(gone()))
    task(mirror, pod())  # another one


def test_an_older_message_does_not_undo_a_binding() -> None:
    mirror = ClusterCache(Registry())
    assert task(mirror, pod()).status is TaskStatus.PENDING
    assert mirror.assume_bound("ns/a", "n1").uid == "u1"
    stale = task(mirror, pod())  # a label changed, say, before the binding arrived
    assert (stale.status, stale.node) == (TaskStatus.BINDING, "n1")
    confirmed = task(mirror, pod(node="n1", phase="Running"))
    assert (confirmed.status, confirmed.node) == (TaskStatus.RUNNING, "n1")
    assert mirror.open_assumptions == 0


def test_a_binding_that_is_refused_is_forgotten_and_what_was_seen_counts_again() -> None:
    mirror = ClusterCache(Registry())
    task(mirror, pod())
    uid = mirror.assume_bound("ns/a", "n1")
    failed, again = mirror.failed("ns/a", uid)
    assert failed == BindFailed("ns/a")
    assert isinstance(again, Changed) and isinstance(again.object, TaskSpec)
    assert again.object.status is TaskStatus.PENDING and again.object.node is None
    assert mirror.failed("ns/a", uid) == []  # once


def test_another_pod_of_the_same_name_knows_nothing_of_the_decision() -> None:
    mirror = ClusterCache(Registry())
    task(mirror, pod())
    uid = mirror.assume_bound("ns/a", "n1")
    assert list(mirror.events_for(gone())) == [Gone(TaskSpec, "ns/a")]
    assert task(mirror, pod(uid="u2")).status is TaskStatus.PENDING
    assert mirror.failed("ns/a", uid) == []


def test_a_pod_that_ended_meanwhile_is_over_whatever_was_decided() -> None:
    mirror = ClusterCache(Registry())
    task(mirror, pod())
    mirror.assume_bound("ns/a", "n1")
    assert task(mirror, pod(phase="Failed")).status is TaskStatus.FAILED
    assert mirror.open_assumptions == 0


def test_an_eviction_holds_until_the_pod_is_seen_to_go() -> None:
    mirror = ClusterCache(Registry())
    task(mirror, pod(node="n1", phase="Running"))
    uid = mirror.assume_evicted("ns/a")
    assert (
        list(mirror.events_for(pod(node="n1", phase="Running"))) == []
    )  # the engine knows better, and needs no telling
    assert mirror.open_assumptions == 1
    assert task(mirror, pod(node="n1", phase="Running", deleted=True)).status is TaskStatus.RELEASING
    assert mirror.open_assumptions == 0
    assert mirror.failed("ns/a", uid) == []  # of a decision that is no longer the last
    assert mirror.failed("ns/a", mirror.assume_evicted("ns/a"))[0] == EvictFailed("ns/a")


def test_after_a_refusal_the_word_of_the_cluster_is_news_again() -> None:
    mirror = ClusterCache(Registry())
    task(mirror, pod())
    uid = mirror.assume_bound("ns/a", "n1")
    assert task(mirror, pod(phase="Pending", hostNetwork=False, priority=1)).node == "n1"  # another message in between
    mirror.failed("ns/a", uid)  # the answer was lost, and nobody could say whether it arrived
    assert task(mirror, pod(node="n1", priority=1)).node == "n1"  # it had


def test_an_eviction_that_is_refused_after_another_message_leaves_the_task_running() -> None:
    from pumice.config.load import default_config
    from pumice.config.plugin_loader import plugin_factories
    from pumice.engine.engine import Engine

    config = default_config()
    engine = Engine(config, plugin_factories(config), Registry())
    mirror = ClusterCache(engine.state.registry)

    def tell(*events: Any) -> None:
        for event in events:
            engine.apply(event)

    tell(*mirror.events_for(pod(node="n1", phase="Running")))
    found = engine.state.tasks["ns/a"]
    engine.state.evict(found)
    uid = mirror.assume_evicted("ns/a")
    tell(*mirror.events_for(pod(node="n1", phase="Running", priority=1)))
    assert found.status is TaskStatus.RELEASING
    tell(*mirror.failed("ns/a", uid))
    assert engine.state.tasks["ns/a"].status is TaskStatus.RUNNING


def test_a_job_that_was_let_in_stays_in() -> None:
    mirror = ClusterCache(Registry())

    def phase(change: Change[Any]) -> JobPhase:
        (event,) = mirror.events_for(change)
        assert isinstance(event, Changed) and isinstance(event.object, JobSpec)
        return event.object.phase

    assert phase(group("Pending")) is JobPhase.PENDING
    mirror.assume_enqueued("ns/g")
    assert phase(group("Pending")) is JobPhase.INQUEUE
    assert phase(group("Running")) is JobPhase.RUNNING
    assert phase(group("Pending")) is JobPhase.PENDING  # somebody has set it back, and that is seen
    mirror.assume_enqueued("ns/g")
    list(mirror.events_for(Change("podgroups.scheduling.volcano.sh", "ns/g", "g1", "2", group("Pending").new, None)))
    assert phase(group("Pending", uid="g2")) is JobPhase.PENDING


def test_invalid_pod_update_is_rejected_and_keeps_last_state() -> None:
    refused: list[ObjectError] = []
    mirror = ClusterCache(Registry(), refused.append)
    task(mirror, pod())
    assert list(mirror.events_for(pod(priorityClassName="", preemptionPolicy="Sometimes"))) == []
    assert "Pod/ns/a" in str(refused[0]) and "preemptionPolicy" in str(refused[0])
