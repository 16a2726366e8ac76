"""The disruption controller: the status of PodDisruptionBudgets, and their accounting of evictions.

A budget demands that a number of the pods it selects stay healthy. Its status reports how many are healthy and how many
disruptions are allowed. An eviction takes one allowed disruption at once and records the pod as disrupted, so that the
next eviction counts it before the controller has observed the pod's deletion.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kubebase.label_selector import matches
from kubebase.work_queue import WorkQueue
from kubesim.api import status as answers
from kubesim.api.client import InProcessClient
from kubesim.clock import Clock, parse_time, stamp
from kubesim.controllers.conditions import find_condition, is_condition_true, set_condition
from kubesim.controllers.retry_policy import RETRY_POLICY, WORKERS
from kubesim.registry.registry import Object
from kubesim.storage import Change

BUDGETS = "poddisruptionbudgets.policy"
DISRUPTED_POD_TIMEOUT = 120.0  # seconds until a pod that was evicted and is still there counts as healthy again
MAX_DISRUPTED_PODS = 2000
RECOUNT_DELAY = 0.1  # seconds in which changes of pods are gathered before a budget is counted again
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."

Scale = Callable[[Object], int]
"""The desired replicas of a controller (an owner reference). LookupError if unknown."""


# ---- the status -------------------------------------------------------------------------------------------


def budget_status(budget: Object, pods: Sequence[Object], scale: Scale, now: float) -> Object:
    """The status of a budget over the pods that it selects."""
    old = budget.get("status") or {}
    status: Object = {key: value for key, value in old.items() if key == "conditions"}
    generation = budget["metadata"].get("generation", 0)
    try:
        expected, desired = _expected_and_desired(budget["spec"], pods, scale)
    except LookupError as error:
        failed = {**old, "disruptionsAllowed": 0, "observedGeneration": old.get("observedGeneration", 0)}
        failed["conditions"] = [dict(entry) for entry in old.get("conditions", ())]
        _set_allowed_condition(failed, "False", "SyncFailed", str(error.args[0]), now)
        return {"currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0, **failed}
    status["conditions"] = [dict(entry) for entry in old.get("conditions", ())]
    disrupted = _still_disrupted(old.get("disruptedPods") or {}, pods, now)
    healthy = sum(
        1
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
        and pod["metadata"]["name"] not in disrupted
        and is_condition_true(pod.get("status") or {}, "Ready")
    )
    allowed = max(0, healthy - desired) if expected > 0 else 0
    status |= {
        "observedGeneration": generation,
        "expectedPods": expected,
        "desiredHealthy": desired,
        "currentHealthy": healthy,
        "disruptionsAllowed": allowed,
    }
    if disrupted:
        status["disruptedPods"] = disrupted
    if allowed:
        _set_allowed_condition(status, "True", "SufficientPods", "", now)
    else:
        _set_allowed_condition(status, "False", "InsufficientPods", "", now)
    return status


def _expected_and_desired(spec: Mapping[str, Any], pods: Sequence[Object], scale: Scale) -> tuple[int, int]:
    """How many pods there should be, and how many of them healthy."""
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if isinstance(least, int):
        return len(pods), least
    if least is None and most is None:
        return len(pods), 0
    controllers = {}
    for pod in pods:
        owner = next((o for o in pod["metadata"].get("ownerReferences", ()) if o.get("controller")), None)
        if owner is not None:
            controllers[owner["uid"]] = owner
    expected = sum(scale(owner) for owner in controllers.values())
    if most is not None:
        return expected, max(0, expected - _resolve_amount(most, expected))
    return expected, _resolve_amount(least, expected)


def _resolve_amount(amount: int | str | None, whole: int) -> int:
    """A number, or a percentage of the whole, rounded up."""
    if isinstance(amount, str) and amount.endswith("%"):
        return -(-int(amount[:-1]) * whole // 100)
    return int(amount or 0)


def _still_disrupted(disrupted: Mapping[str, str], pods: Iterable[Object], now: float) -> dict[str, str]:
    """The evicted pods whose deletion has not been observed and has not timed out."""
    waiting = {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
    return {
        name: at for name, at in disrupted.items() if name in waiting and parse_time(at) + DISRUPTED_POD_TIMEOUT >= now
    }


def _set_allowed_condition(status: Object, holds: str, reason: str, message: str, now: float) -> None:
    entry = {"type": "DisruptionAllowed", "status": holds, "reason": reason, "message": message}
    set_condition(status, entry | {"observedGeneration": status["observedGeneration"]}, stamp(now))


# ---- evictions --------------------------------------------------------------------------------------------


def status_after_eviction(
    budgets: Iterable[Object], pod: Object, now: str
) -> list[tuple[Object, Callable[[Object], None]]]:
    """Check that a pod may be evicted. Returns its budgets, each with the edit that takes one disruption.

    ``budgets`` are those of the pod's namespace. The edit takes one disruption from the budget's
    newest state, and raises too if another eviction has just taken the last one.
    """
    phase = (pod.get("status") or {}).get("phase")
    if phase in {"Pending", "Succeeded", "Failed"} or "deletionTimestamp" in pod["metadata"]:
        return []
    labels = pod["metadata"].get("labels") or {}
    guards = [budget for budget in budgets if selects(budget, labels)]
    if not guards:
        return []
    if len(guards) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise answers.ApiError(500, "", text)
    budget = guards[0]
    status = budget.get("status") or {}
    if not is_condition_true(pod.get("status") or {}, "Ready"):
        desired = status.get("desiredHealthy", 0)
        if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
            return []
        if status.get("currentHealthy", 0) >= desired > 0:
            return []
    _require_disruption_allowed(budget)

    def take(newest: Object) -> None:
        _require_disruption_allowed(newest)
        left = newest["status"]
        left["disruptionsAllowed"] -= 1
        left.setdefault("disruptedPods", {})[pod["metadata"]["name"]] = now
        if not left["disruptionsAllowed"]:
            _set_allowed_condition(left, "False", "InsufficientPods", "", parse_time(now))

    return [(budget, take)]


def selects(budget: Object, labels: Mapping[str, str]) -> bool:
    """Whether a budget is about pods with these labels. Without a selector it is about none."""
    selector = budget["spec"].get("selector")
    return selector is not None and matches(selector, labels)


def _require_disruption_allowed(budget: Object) -> None:
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    allowed = status.get("disruptionsAllowed", 0)
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _refusal(f"The disruption budget {name} is still being processed by the server.", 10)
    if allowed < 0:
        raise answers.forbidden("poddisruptionbudget", "policy", name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or {}) > MAX_DISRUPTED_PODS:
        detail = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise answers.forbidden("poddisruptionbudget", "policy", name, detail)
    if allowed:
        return
    desired, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    judged = find_condition(status, "DisruptionAllowed") or {}
    if judged.get("reason") == "SyncFailed" and judged.get("message"):
        why = f"does not allow evicting pods currently because it failed sync: {judged['message']}"
    elif healthy <= desired:
        why = f"needs {desired} healthy pods and has {healthy} currently"
    else:
        why = "does not allow evicting pods currently"
    raise _refusal(f"The disruption budget {name} {why}", 0)


def _refusal(cause: str, seconds: int) -> answers.ApiError:
    causes = [{"reason": "DisruptionBudget", "message": cause}]
    return answers.too_many_requests(REFUSED, seconds, {"causes": causes})


# ---- following --------------------------------------------------------------------------------------------


class DisruptionController:
    """Keeps the status of all budgets."""

    def __init__(self, api: InProcessClient, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._known: dict[str, dict[str, Object]] = {}  # by namespace and name
        self.work_queue = WorkQueue(self._reconcile, workers=WORKERS, retries=RETRY_POLICY)

    def on_budget_change(self, budget: Object, *, deleted: bool) -> None:
        """Handle a change of a budget."""
        namespace, name = budget["metadata"]["namespace"], budget["metadata"]["name"]
        known = self._known.setdefault(namespace, {})
        if deleted:
            known.pop(name, None)
            if not known:
                del self._known[namespace]
        else:
            known[name] = budget
            self.work_queue.add(f"{namespace}/{name}")

    def on_pod_change(self, change: Change) -> None:
        """Look again at the budgets that select a pod, or did before it changed; soon, and once for many pods."""
        namespace = change.key.split("/")[1]
        for name, budget in self._known.get(namespace, {}).items():
            states = [state for state in (change.object, change.old) if state]
            if any(selects(budget, state["metadata"].get("labels") or {}) for state in states):
                self.work_queue.add_later(f"{namespace}/{name}", RECOUNT_DELAY)

    async def _reconcile(self, key: str) -> float | None:
        namespace, name = key.split("/")
        found = self._api.read(BUDGETS, namespace, name)
        if found is None:
            return None
        pods = [pod for pod in self._api.list("pods", namespace) if selects(found, pod["metadata"].get("labels") or {})]

        def edit(newest: Object) -> None:
            newest["status"] = budget_status(newest, pods, self._scale(namespace), self._clock.now())

        written = await self._api.modify(BUDGETS, namespace, name, edit, subresource="status")
        waiting = (written or {}).get("status", {}).get("disruptedPods")
        return DISRUPTED_POD_TIMEOUT + 1 if waiting else None

    def _scale(self, namespace: str) -> Scale:
        def scale(owner: Object) -> int:
            resource = self._api.registry.of_kind(owner["apiVersion"], owner["kind"])
            if resource is None or "scale" not in resource.subresources:
                what = resource.qualified if resource else f"{owner['kind']} of {owner['apiVersion']}"
                raise LookupError(f"{what} does not implement the scale subresource")
            found = self._api.read(resource.qualified, namespace, owner["name"])
            return int(((found or {}).get("spec") or {}).get("replicas") or 0)

        return scale


async def run(api: InProcessClient, clock: Clock) -> None:
    """Keep the status of all budgets until cancelled."""
    budgets = DisruptionController(api, clock)

    async def follow_budgets() -> None:
        async for batch in api.follow(BUDGETS):
            for change in batch:
                budgets.on_budget_change(change.object, deleted=change.deleted)

    async def follow_pods() -> None:
        async for batch in api.follow("pods"):
            for change in batch:
                budgets.on_pod_change(change)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(budgets.work_queue.run())
        tasks.create_task(follow_budgets())
        tasks.create_task(follow_pods())
