"""Sync the states of queues: each queue's own state, and its effect on the queues below.

A queue's *own* state, Open, Closed or Paused, is that of the last command. Its ``status.state`` is the strictest of
that and of all ancestors' states, and Closing instead of Closed while there is unfinished work in it or below it. The
condition ``OwnState`` stores the own state, so that it is restored when the ancestor opens, or after a user has
overwritten ``status.state``. A command writes only that condition; the states follow from it, children first. The
displayed state counts only for a queue that has no such condition yet.

A queue that is terminating, or that its hierarchy no longer names, counts as closed whatever its own state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from kubebase.field_error import FieldError
from kubebase.resource_vector import Registry
from pumice.admission import Object
from pumice.admission.cluster_view import describe_queue
from pumice.controllers.queues.queue_cache import QueueCache
from pumice.kube.resources import Document
from pumice.model.queue_states import effective_state, state_when_idle
from pumice.model.specs import DEFAULT_QUEUE, ROOT, Queue, QueueState

OWN: Final = "OwnState"
COMMANDED: Final = "a Command changed the state"
"""How the message of the condition begins from a command until the state has followed it."""
WEIGHTS: Final = "WeightsAgree"
PLACED: Final = "Placed"
OURS: Final = (WEIGHTS, PLACED, OWN)
"""Types of the conditions that are kept here."""

STAY: Final = (ROOT, DEFAULT_QUEUE)
"""Queues that every cluster has."""

_STATES = {state.value: state for state in QueueState}


def state_of(queue: Object) -> QueueState:
    """The state in a queue's status; Open if there is none, Unknown if it is not a valid state."""
    text = (queue.get("status") or {}).get("state") or QueueState.OPEN.value
    return _STATES.get(text, QueueState.UNKNOWN)


def is_readable(queue: Object | None) -> bool:
    """Whether the state in a queue's status is valid."""
    return queue is not None and ((queue.get("status") or {}).get("state") or QueueState.OPEN.value) in _STATES


def own_state(queue: Object) -> QueueState:
    """The own state of a queue."""
    for condition in conditions_of(queue):
        if condition.get("type") == OWN and condition.get("reason") in _STATES:
            return _kept(_STATES[condition["reason"]])
    return _kept(state_of(queue))


def conditions_of(queue: Object) -> list[Document]:
    """The conditions of a queue; read-only."""
    return (queue.get("status") or {}).get("conditions") or []


def with_own_state(queue: Object, own: QueueState, now: str) -> Document:
    """The status patch that changes a queue's own state. The displayed state follows later."""
    return {"conditions": _renewed(queue, {**_ours(queue), OWN: _own(own, COMMANDED)}, now)}


@dataclass(frozen=True, slots=True)
class Standing:
    """The desired state of a queue."""

    state: QueueState
    own: QueueState
    because: str = ""
    """Why the two differ; empty: they do not."""


def statuses(cache: QueueCache, now: str) -> Iterator[tuple[Object, Document]]:
    """Every queue whose status is out of date, and the patch that updates it; children come first."""
    standings = dict(_standings(cache))
    depth = {name: len(cache.tree.path(name) or ()) for name in standings}
    for name in sorted(standings, key=lambda name: (-depth[name], name)):
        queue, standing = cache.queues[name], standings[name]
        ours = dict(_remarks(name, cache))
        ours[OWN] = _own(standing.own, standing.because)
        status: Document = {}
        if (queue.get("status") or {}).get("state") != standing.state.value:
            status["state"] = standing.state.value
        conditions = _renewed(queue, ours, now)
        if conditions != conditions_of(queue):
            status["conditions"] = conditions
        if status:
            yield queue, status


def _standings(cache: QueueCache) -> Iterator[tuple[str, Standing]]:
    tree, busy = cache.tree, _busy(cache)
    forced = {name: _force(name, cache) for name in cache.queues}
    counted = {
        name: replace(queue, state=QueueState.CLOSED if forced[name] else own_state(cache.queues[name]))
        for name, queue in tree.queues.items()
    }
    for name, queue in cache.queues.items():
        own = own_state(queue)
        if tree.path(name) is None:
            # It has no known ancestors. Its stored own state applies once it has its place.
            state = state_when_idle(state_of(queue), busy=cache.work.unfinished[name] > 0)
            yield name, Standing(state, own, "" if _kept(state) is own else "the queue has no valid place in the tree")
            continue
        above = [counted[one.name] for one in tree.above(name)]
        decides = effective_state(counted.get(name, Queue(name)), above)
        state = state_when_idle(decides.state, busy=name in busy)
        because = forced[name] if decides.name == name else f"its ancestor '{decides.name}' is {decides.state.value}"
        yield name, Standing(state, own, "" if _kept(state) is own else because)


def _force(name: str, cache: QueueCache) -> str:
    """Why a queue counts as closed, whatever its own state; empty: it does not."""
    if name in cache.withdrawn:
        return f"the hierarchy of queue '{cache.parent(name)}' no longer names this queue"
    if cache.view.is_leaving(name) and name not in STAY:
        return "the queue is being deleted"
    return ""


def _busy(cache: QueueCache) -> set[str]:
    """The queues with unfinished work in them or below them."""
    found: set[str] = set()
    for name, count in cache.work.unfinished.items():
        if count > 0 and name in cache.queues:
            found.update((name, *(queue.name for queue in cache.tree.above(name))))
    return found


def _kept(state: QueueState) -> QueueState:
    """Closing is stored as Closed."""
    return QueueState.CLOSED if state is QueueState.CLOSING else state


# ---- conditions -------------------------------------------------------------------------------------------


def _own(own: QueueState, because: str) -> Document:
    message = f"{because}; its own state is {own.value}" if because else f"its own state is {own.value}"
    return {"type": OWN, "status": "True", "reason": own.value, "message": message}


def _remarks(name: str, cache: QueueCache) -> Iterator[tuple[str, Document]]:
    """Problems with the place of a queue, or warnings about its weights."""
    refusals = cache.remarks.get(name, [])
    wrong = "; ".join(f"{refusal.field}: {refusal.message}" for refusal in refusals if refusal.refused)
    if name not in cache.tree.queues:
        wrong = _unreadable(cache.queues[name])
    if wrong:
        yield PLACED, {"type": PLACED, "status": "False", "reason": "InvalidPlacement", "message": wrong}
    other = "; ".join(refusal.message for refusal in refusals if not refusal.refused)
    if other:
        yield WEIGHTS, {"type": WEIGHTS, "status": "False", "reason": "Overridden", "message": other}


def _unreadable(queue: Object) -> str:
    """Why a queue cannot be parsed; its state does not count, because that is about to be corrected."""
    try:
        describe_queue({**queue, "status": {}}, Registry())
    except FieldError as error:
        return f"{error.field}: {error.message}"
    return ""


def _ours(queue: Object) -> dict[str, Document]:
    return {condition["type"]: condition for condition in conditions_of(queue) if condition.get("type") in OURS}


def _renewed(queue: Object, ours: dict[str, Document], now: str) -> list[Document]:
    """The conditions of a queue with ours updated. An unchanged one keeps its timestamp."""
    others = [condition for condition in conditions_of(queue) if condition.get("type") not in OURS]
    there = _ours(queue)
    renewed = []
    for kind in OURS:
        if kind in ours:
            new, old = {"lastTransitionTime": now, **ours[kind]}, there.get(kind, {})
            same = all(old.get(field) == new[field] for field in ("status", "reason", "message"))
            renewed.append(old if same else new)
    return others + renewed
