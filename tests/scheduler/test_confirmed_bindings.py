"""A pod that shows our own binding is converted by a short way, which must end where the long one does."""

from __future__ import annotations

from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from kubebase.resource_vector import Registry
from pumice.engine.events import Changed, Event
from pumice.kube.decode import api_types
from pumice.kube.resources import PODS
from pumice.kube.watch.change_queue import Change
from pumice.model.specs import TaskSpec, TaskStatus
from pumice.scheduler import cluster_cache
from pumice.scheduler.cluster_cache import ClusterCache

BOUND_AT = "2026-01-01T00:00:07Z"
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": BOUND_AT}
PLACED = {"pumice.dev/placed-by": "pumice"}


def described(**more: Any) -> dict[str, Any]:
    """A pod as it waits; ``more`` are fields of its spec."""
    annotations = {"scheduling.k8s.io/group-name": "g"}
    about = {"name": "a", "namespace": "ns", "labels": {"app": "x"}, "annotations": annotations}
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    return {
        "metadata": {**about, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"schedulerName": "pumice", "containers": [container], **more},
        "status": {"phase": "Pending"},
    }


def bound(pod: dict[str, Any], node: str = "n1") -> dict[str, Any]:
    """What an API server makes of a pod when Pumice binds it."""
    about = {**pod["metadata"], "annotations": {**pod["metadata"]["annotations"], **PLACED}}
    status = {**pod["status"], "conditions": [SCHEDULED]}
    return {"metadata": about, "spec": {**pod["spec"], "nodeName": node}, "status": status}


def decoded(pod: dict[str, Any]) -> api_types.Pod:
    return PODS.decode(msgspec.json.encode(pod))


def events_of(states: list[dict[str, Any]], *, short: bool, node: str = "n1", uid: str = "u1") -> list[Any]:
    """The events of a pod that is bound after its first state, and what the cache keeps; ``short``: the short way."""
    cache = ClusterCache(Registry())
    found: list[Any] = []
    before: api_types.Pod | None = None
    with mock.patch.object(cluster_cache, "bound_task", cluster_cache.bound_task if short else lambda *about: None):
        for number, state in enumerate(states):
            after = decoded(state)
            events: list[Event] = list(cache.events_for(Change("pods", "ns/a", uid, str(number), before, after)))
            found.append((events, cache.open_assumptions))
            if number == 0:
                cache.assume_bound("ns/a", node)
            before = after
    return found


def is_short(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether a change of a pod that is assumed on ``n1`` takes the short way."""
    with mock.patch.object(cluster_cache, "describe", wraps=cluster_cache.describe) as describe:
        events_of([before, after], short=True)
    return int(describe.call_count) == 1


def test_a_binding_of_ours_is_recognised() -> None:
    pod = described()
    assert is_short(pod, bound(pod))
    events, left = events_of([pod, bound(pod)], short=True)[-1]
    (changed,) = events
    assert isinstance(changed, Changed) and isinstance(changed.object, TaskSpec)
    assert (changed.object.node, changed.object.status, changed.object.placed) == ("n1", TaskStatus.BOUND, True)
    assert changed.object.started == 1_767_225_607_000_000 and left == 0


def edited(pod: dict[str, Any], part: str, **fields: Any) -> dict[str, Any]:
    return {**pod, part: {**pod[part], **fields}}


POD = described()
BOUND = bound(POD)
OTHERS = {
    "another node": (POD, bound(POD, "n2")),
    "bound by somebody else": (POD, edited(BOUND, "metadata", annotations=POD["metadata"]["annotations"])),
    "an annotation more": (
        POD,
        edited(BOUND, "metadata", annotations={**BOUND["metadata"]["annotations"], "volcano.sh/preemptable": "true"}),
    ),
    "another label": (POD, edited(BOUND, "metadata", labels={"app": "y"})),
    "it is being deleted": (POD, edited(BOUND, "metadata", deletionTimestamp=BOUND_AT)),
    "it has an owner": (POD, edited(BOUND, "metadata", ownerReferences=[{"controller": True}])),
    "it runs": (POD, edited(BOUND, "status", phase="Running")),
    "it has failed": (POD, edited(BOUND, "status", phase="Failed")),
    "a container was resized": (POD, edited(BOUND, "status", containerStatuses=[{"name": "c"}])),
    "another priority": (POD, edited(BOUND, "spec", priority=5)),
    "another toleration": (POD, edited(BOUND, "spec", tolerations=[{"key": "k", "operator": "Exists"}])),
    "cards": (
        POD,
        edited(BOUND, "metadata", annotations={**BOUND["metadata"]["annotations"], "volcano.sh/gpu-index": "0,1"}),
    ),
    "claims": (
        described(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
        bound(described(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])),
    ),
    "nothing yet": (POD, edited(POD, "metadata", labels={"app": "y"})),
}


@pytest.mark.parametrize("case", OTHERS)
def test_whatever_else_has_changed_is_seen(case: str) -> None:
    before, after = OTHERS[case]
    assert not is_short(before, after)


def test_another_pod_of_the_same_name_is_converted() -> None:
    cache = ClusterCache(Registry())
    list(cache.events_for(Change("pods", "ns/a", "u1", "1", None, decoded(POD))))
    cache.assume_bound("ns/a", "n1")
    with mock.patch.object(cluster_cache, "bound_task") as way:
        list(cache.events_for(Change("pods", "ns/a", "u2", "2", decoded(POD), decoded(BOUND))))
    assert not way.called and cache.open_assumptions == 0


def test_a_pod_that_could_not_be_converted_in_between_is_converted_from_what_it_is_now() -> None:
    # The task that is known is not that of the state before, but of the one before that.
    wrong = edited(POD, "spec", preemptionPolicy="Perhaps")
    short, long = (events_of([POD, wrong, bound(wrong)], short=way) for way in (True, False))
    assert short == long and short[-1] == ([], 1)
    again = edited(POD, "spec", priority=3)
    short, long = (events_of([POD, wrong, again, bound(again)], short=way) for way in (True, False))
    assert short == long and short[-1][1] == 0


specs = st.fixed_dictionaries(
    {},
    optional={
        "priority": st.integers(0, 3),
        "priorityClassName": st.sampled_from(["", "high"]),
        "preemptionPolicy": st.sampled_from(["Never", "PreemptLowerPriority"]),
        "nodeSelector": st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=1),
        "tolerations": st.just([{"key": "k", "operator": "Exists"}]),
        "schedulingGates": st.just([{"name": "g"}]),
        "volumes": st.just([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
    },
)
changes = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.dictionaries(st.sampled_from(["app", "b"]), st.sampled_from("xy"), max_size=2),
        "phase": st.sampled_from(["Pending", "Running", "Succeeded", "Failed", ""]),
        "annotations": st.dictionaries(
            st.sampled_from(["volcano.sh/preemptable", "volcano.sh/task-spec", "scheduling.k8s.io/group-name"]),
            st.sampled_from(["true", "g", "h"]),
            max_size=1,
        ),
        "deletionTimestamp": st.just(BOUND_AT),
        "owners": st.just([{"controller": True}]),
        "statuses": st.just([{"name": "c", "allocatedResources": {"cpu": "3"}}]),
        "spec": specs,
        "node": st.sampled_from(["", "n1", "n2"]),
        "placed": st.booleans(),
    },
)


def changed(pod: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """A pod after a binding, and whatever else is drawn."""
    found = bound(pod, change.get("node", "n1"))
    about, status = dict(found["metadata"]), dict(found["status"])
    about["annotations"] = {**about["annotations"], **change.get("annotations", {})}
    if not change.get("placed", True):
        about["annotations"].pop("pumice.dev/placed-by")
    if "labels" in change:
        about["labels"] = change["labels"]
    if "deletionTimestamp" in change:
        about["deletionTimestamp"] = change["deletionTimestamp"]
    if "owners" in change:
        about["ownerReferences"] = change["owners"]
    status["phase"] = change.get("phase", status["phase"])
    if "statuses" in change:
        status["containerStatuses"] = change["statuses"]
    return {"metadata": about, "spec": {**found["spec"], **change.get("spec", {})}, "status": status}


@given(spec=specs, labels=st.dictionaries(st.sampled_from("ab"), st.just("x"), max_size=2), after=st.lists(changes))
def test_the_short_way_ends_where_the_long_one_does(
    spec: dict[str, Any], labels: dict[str, str], after: list[dict[str, Any]]
) -> None:
    first = described(**spec)
    first["metadata"]["labels"] = labels
    states = [first, *(changed(first, change) for change in after)]
    event(f"short: {len(states) > 1 and is_short(*states[:2])}")
    assert events_of(states, short=True) == events_of(states, short=False)
