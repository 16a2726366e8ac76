"""Which limits a unit would break: all of them, not only the first one hit.

The plugins themselves decide. The report lifts a queue's limit that rejects the unit, asks the plugin again, and so on,
until nothing rejects it; then it restores everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kubebase.resource_vector import LARGEST_AMOUNT
from pumice.engine.candidates.units import AllocationUnit
from pumice.engine.explain.wait_report import Limit
from pumice.engine.explain.wording import AmountFormatter, listed
from pumice.engine.fairness.limits.queue_bounds import beyond_limits, reserved_for
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode
from pumice.engine.plugins.builtin.proportion import ProportionPlugin
from pumice.engine.plugins.builtin.queue_limits import QueueLimits
from pumice.engine.plugins.builtin.user_limits import Beyond, UsersPlugin

if TYPE_CHECKING:
    from pumice.engine.engine import Engine
    from pumice.engine.plugins.plugin import Plugin


def limits_of(engine: Engine, leaf: JobNode, unit: AllocationUnit) -> list[Limit]:
    """Every limit that rejects a unit now; empty iff no plugin rejects it."""
    found: dict[Limit, None] = {}
    for plugin, reason in engine.policy.refusals(leaf, unit):
        own = list(_said_by(engine, plugin, leaf, unit))
        found.update(dict.fromkeys(own or [Limit(plugin.name, leaf.queue.path, "", reason)]))
    return list(found)


def _said_by(engine: Engine, plugin: Plugin, leaf: JobNode, unit: AllocationUnit) -> Iterator[Limit]:
    """Why a built-in plugin rejects a unit, in numbers."""
    if isinstance(plugin, QueueLimits):
        yield from _queue_limits(engine, leaf, unit)
    if isinstance(plugin, ProportionPlugin):
        reason = plugin.beyond_deserved(leaf.queue, unit) or plugin.overused(leaf.queue)
        if reason is not None:
            yield Limit("deserved", leaf.queue.path, "", reason)
    if isinstance(plugin, UsersPlugin):
        for beyond in plugin.beyond(leaf, unit):
            yield _user_limit(engine, beyond)


# ---- queues ------------------------------------------------------------------------------------------------------


def _queue_limits(engine: Engine, leaf: JobNode, unit: AllocationUnit) -> Iterator[Limit]:
    tree = engine.tree
    lifted: list[tuple[list[int], int, int]] = []
    named: set[tuple[ShareNode, int]] = set()  # guarantees already reported as blocking
    asks = dict(unit.ask)
    try:
        while (lack := beyond_limits(tree, leaf, unit.ask)) is not None:
            queue, j = lack
            assert queue.ceiling is not None
            limit = _queue_limit(engine, leaf, queue, j, asks[j], named)
            if limit is not None:
                yield limit
            if queue.parent is None:
                break  # the root has no parent, and its ceiling is the cluster
            lifted.append((queue.ceiling, j, queue.ceiling[j]))
            queue.ceiling[j] = LARGEST_AMOUNT
    finally:
        for ceiling, j, amount in lifted:
            ceiling[j] = amount


def _queue_limit(
    engine: Engine, leaf: JobNode, queue: ShareNode, j: int, asks: int, said: set[tuple[ShareNode, int]]
) -> Limit | None:
    """The limit that keeps a queue from holding this much more; None: its parent's, or already reported."""
    say = AmountFormatter(engine.state.registry)
    assert queue.ceiling is not None
    most, described = queue.ceiling[j], engine.context.sync.queue_of(queue)
    named = dict(described.capability).get(j) if described is not None else None
    # Claims of other queues that block the unit count as held.
    lacks = queue.held[j] + asks - most if queue.held[j] + asks > most else queue.claims[j] + asks - most
    amounts = tuple(say.amount(j, amount) for amount in (most, queue.held[j], asks, lacks))
    who = f"queue {queue.path}" if queue.parent is not None else "the cluster"
    holds = f"{who} holds {say.name(j)} {amounts[1]}"
    if queue.held[j] + asks > most:
        if named == most:
            message = f"{holds} of its capability of {amounts[0]}, and the job requests {amounts[2]} more"
            return Limit("capability", queue.path, say.name(j), message, *amounts)
        others = [(other, n) for other, n in _beside(engine, leaf, queue.parent, queue) if n[j]]
    else:
        others = [(other, n) for other, n in _beside(engine, leaf, queue, None) if _claimed(other, j) > other.held[j]]
    if {(other, j) for other, _ in others} <= said:
        return None
    said.update((other, j) for other, _ in others)
    kept = listed([f"{other.path} is guaranteed {say.amount(j, reserved[j])}" for other, reserved in others])
    message = f"{holds} of at most {amounts[0]}, and the job requests {amounts[2]} more: {kept}"
    return Limit("guarantee", queue.path, say.name(j), message, *amounts)


def _claimed(queue: ShareNode, j: int) -> int:
    """What a queue withholds from others: the holdings below it, and the unused guarantees there."""
    return max(queue.claims[j], queue.guarantee[j]) if queue.guarantee is not None else queue.claims[j]


def _beside(
    engine: Engine, leaf: JobNode, top: ShareNode | None, bottom: ShareNode | None
) -> Iterator[tuple[ShareNode, list[int]]]:
    """The sibling queues along a job's path, below ``top`` and not below ``bottom``, with their reservations."""
    reserved = reserved_for(engine.tree.queues())
    below: ShareNode = bottom or leaf.queue
    while below is not top and below.parent is not None:
        for child in below.parent.children.values():
            if child.kind is NodeKind.QUEUE and child is not below:
                yield child, reserved[child]
        below = below.parent


# ---- users -------------------------------------------------------------------------------------------------------


def _user_limit(engine: Engine, beyond: Beyond) -> Limit:
    say, j = AmountFormatter(engine.state.registry), beyond.resource
    lacks = beyond.held + beyond.asks - beyond.limit
    amounts = tuple(say.amount(j, amount) for amount in (beyond.limit, beyond.held, beyond.asks, lacks))
    message = (
        f"user {beyond.user} holds {say.name(j)} {amounts[1]} in queue {beyond.queue.path} and requests "
        f"{amounts[2]} more; the user limit is {amounts[0]} = {_arithmetic(say, beyond)}"
    )
    return Limit("user", beyond.queue.path, say.name(j), message, *amounts)


def _arithmetic(say: AmountFormatter, beyond: Beyond) -> str:
    """The rule of docs/fairness.md, section 8.1 with its numbers: min(max(C/n, C*p/100), Q*f)."""
    rule, j = beyond.rule, beyond.resource
    base, configured = say.amount(j, int(beyond.base)), say.amount(j, int(beyond.configured))
    terms = []
    if rule.percent is not None and beyond.users > 1:
        terms.append(f"max({base} / {beyond.users} users, {base} x {rule.percent} %)")
    if rule.factor is not None:
        terms.append(f"{configured} x {float(rule.factor):g}")
    return f"min({', '.join(terms)})" if len(terms) > 1 else terms[0]
