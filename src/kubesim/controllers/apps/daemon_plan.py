"""The next step of a DaemonSet: on which nodes to create and delete pods now, and its status. Pure.

A pod is created for a node and asks for it by affinity; the scheduler that its template names binds it. An update
deletes old pods while no more than ``maxUnavailable`` nodes are without an available one. With ``maxSurge`` it creates
new pods beside the old ones first.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from kubesim.clock import Clock
from kubesim.controllers.apps.replicasets import seconds_until_available
from kubesim.controllers.apps.revisions import HASH_LABEL
from kubesim.controllers.controller_refs import is_being_deleted, new_controller_ref
from kubesim.controllers.jobs.job_pods import is_active, is_ready, phase
from kubesim.controllers.nodes.node_matching import REQUIRED, matches_node, tolerates_taints
from kubesim.controllers.nodes.taints import NOT_READY, UNREACHABLE, UNSCHEDULABLE
from kubesim.kinds.apps import amount
from kubesim.kinds.daemon_sets import TEMPLATE_GENERATION
from kubesim.registry.registry import Object

GENERATION_LABEL: Final = "pod-template-generation"
TOLERATIONS: Final[Sequence[Object]] = (
    *({"key": key, "operator": "Exists", "effect": "NoExecute"} for key in (NOT_READY, UNREACHABLE)),
    *(
        {"key": f"node.kubernetes.io/{pressure}", "operator": "Exists", "effect": "NoSchedule"}
        for pressure in ("disk-pressure", "memory-pressure", "pid-pressure")
    ),
    {"key": UNSCHEDULABLE, "operator": "Exists", "effect": "NoSchedule"},
)
"""What pods of DaemonSets tolerate beside their template: they belong to their node in good and in bad times."""


@dataclass(slots=True)
class DaemonPlan:
    """The nodes that get a pod now, the pods that go, and the status."""

    create: list[str] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)
    failed: list[Object] = field(default_factory=list)
    """Those of the pods to delete that have failed."""
    status: Object = field(default_factory=dict)
    again: float | None = None
    """After how many seconds of the cluster the plan changes without an event."""


def node_of(pod: Object) -> str:
    """The node that a pod is on, or asks for by affinity."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    affinity = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED) or {}
    for term in affinity.get("nodeSelectorTerms") or ():
        for requirement in term.get("matchFields") or ():
            if requirement["key"] == "metadata.name" and requirement["operator"] == "In":
                return str(requirement["values"][0])
    return ""


def runs_on(owner: Object, node: Object, *, already: bool = False) -> bool:
    """Whether a node should run a pod; ``already``: whether one that is there may stay, whatever new pods may do."""
    spec = pod_spec(owner)
    if spec.get("nodeName") and spec["nodeName"] != node["metadata"]["name"]:
        return False
    effects = ("NoExecute",) if already else ("NoExecute", "NoSchedule")
    return matches_node(spec, node) and tolerates_taints(spec, node, effects)


def pod_spec(owner: Object) -> Object:
    """The spec of the template, with what pods of DaemonSets tolerate."""
    spec = dict(owner["spec"]["template"]["spec"])
    spec["tolerations"] = [*(spec.get("tolerations") or ()), *TOLERATIONS]
    return spec


class _Daemons:
    """The pods of a DaemonSet by node."""

    def __init__(self, owner: Object, pods: list[Object], nodes: list[Object], newest: str, clock: Clock) -> None:
        self.owner, self.newest, self.clock = owner, newest, clock
        self.nodes = {node["metadata"]["name"]: node for node in nodes}
        self.wanted = {name for name, node in self.nodes.items() if runs_on(owner, node)}
        self.pods: dict[str, list[Object]] = {}
        for pod in sorted(
            pods, key=lambda pod: (pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"])
        ):
            self.pods.setdefault(node_of(pod), []).append(pod)

    def active(self, node: str) -> list[Object]:
        return [pod for pod in self.pods.get(node, ()) if is_active(pod)]

    def is_new(self, pod: Object) -> bool:
        return (pod["metadata"].get("labels") or {}).get(HASH_LABEL) == self.newest

    def wait(self, pod: Object) -> float | None:
        return seconds_until_available(pod, self.owner["spec"].get("minReadySeconds", 0), self.clock)

    def is_available(self, pod: Object) -> bool:
        wait = self.wait(pod)
        return wait is not None and wait <= 0


def plan_daemon_set(owner: Object, pods: list[Object], nodes: list[Object], newest: str, clock: Clock) -> DaemonPlan:
    """The next step. ``newest`` is the hash of the present template."""
    daemons, plan = _Daemons(owner, pods, nodes, newest, clock), DaemonPlan()
    if not is_being_deleted(owner):
        _place(plan, daemons)
        if owner["spec"]["updateStrategy"]["type"] == "RollingUpdate":
            _update(plan, daemons)
    plan.status, plan.again = _status(daemons)
    return plan


def _place(plan: DaemonPlan, daemons: _Daemons) -> None:
    """Plan a pod for each node that lacks one; failed pods, and those on other nodes, go."""
    for name in sorted(daemons.nodes.keys() | daemons.pods.keys()):
        node, active = daemons.nodes.get(name), daemons.active(name)
        over = [pod for pod in daemons.pods.get(name, ()) if phase(pod) in {"Failed", "Succeeded"}]
        ended = [pod for pod in over if not is_being_deleted(pod)]
        plan.delete += ended
        plan.failed += [pod for pod in ended if phase(pod) == "Failed"]
        if name in daemons.wanted:
            if not daemons.pods.get(name):
                plan.create.append(name)
            old, new = (
                [pod for pod in active if not daemons.is_new(pod)],
                [pod for pod in active if daemons.is_new(pod)],
            )
            plan.delete += old[1:] + new[1:]
        elif node is None or not runs_on(daemons.owner, node, already=True):
            plan.delete += active


def _update(plan: DaemonPlan, daemons: _Daemons) -> None:
    rolling = daemons.owner["spec"]["updateStrategy"]["rollingUpdate"]
    count = len(daemons.wanted)
    surge = amount(rolling["maxSurge"], count, up=True)
    missing = max(1, amount(rolling["maxUnavailable"], count, up=True))
    without = sum(not any(map(daemons.is_available, daemons.active(name))) for name in daemons.wanted)
    both = sum(len(daemons.active(name)) > 1 for name in daemons.wanted)
    for name in sorted(daemons.wanted):
        active = daemons.active(name)
        old = next((pod for pod in active if not daemons.is_new(pod)), None)
        new = next((pod for pod in active if daemons.is_new(pod)), None)
        if old is None or old in plan.delete:
            continue
        available = daemons.is_available(old)
        if surge and new is None and available:
            if both < surge:
                both += 1
                plan.create.append(name)
        elif surge and new is not None:
            if daemons.is_available(new):
                plan.delete.append(old)
        elif not available:
            plan.delete.append(old)
        elif without < missing:
            without += 1
            plan.delete.append(old)


def _status(daemons: _Daemons) -> tuple[Object, float | None]:
    first = {name: active for name in daemons.wanted if (active := daemons.active(name))}
    waits = [daemons.wait(pod) for active in first.values() for pod in active]
    ready = sum(any(map(is_ready, active)) for active in first.values())
    available = sum(any(map(daemons.is_available, active)) for active in first.values())
    before = daemons.owner.get("status") or {}
    counts = {
        "updatedNumberScheduled": sum(any(map(daemons.is_new, active)) for active in first.values()),
        "numberAvailable": available,
        "numberUnavailable": len(daemons.wanted) - available,
        "collisionCount": before.get("collisionCount", 0),
    }
    status: Object = {
        "currentNumberScheduled": len(first),
        "numberMisscheduled": sum(bool(daemons.active(name)) for name in daemons.pods.keys() - daemons.wanted),
        "desiredNumberScheduled": len(daemons.wanted),
        "numberReady": ready,
        "observedGeneration": daemons.owner["metadata"].get("generation", 0),
        **{name: count for name, count in counts.items() if count},
    }
    if before.get("conditions"):
        status["conditions"] = before["conditions"]
    return status, min((wait for wait in waits if wait is not None and wait > 0), default=None)


def new_pod(owner: Object, node: str, newest: str) -> Object:
    """The pod for a node."""
    about, given = owner["metadata"], owner["spec"]["template"].get("metadata") or {}
    labels = {
        **(given.get("labels") or {}),
        HASH_LABEL: newest,
        GENERATION_LABEL: (about.get("annotations") or {}).get(TEMPLATE_GENERATION, "1"),
    }
    kept = {key: given[key] for key in ("annotations", "finalizers") if given.get(key)}
    spec = copy.deepcopy(pod_spec(owner))
    _require_node(spec, node)
    named = {"generateName": f"{about['name']}-", "ownerReferences": [new_controller_ref(owner)]}
    return {"metadata": {**kept, **named, "labels": labels}, "spec": spec}


def _require_node(spec: Object, node: str) -> None:
    """Let a pod's spec match one node only, beside what its template requires of it."""
    by_name = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    terms = affinity.setdefault(REQUIRED, {}).setdefault("nodeSelectorTerms", [])
    for term in terms:
        term["matchFields"] = by_name
    if not terms:
        terms.append({"matchFields": by_name})
