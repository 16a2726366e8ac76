"""The first step of a cycle: update what is derived from the cluster's objects, and the targets if they can differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.prepare.shape_cleanup import drop_unused_shapes

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext


def prepare_cycle(context: SchedulingContext) -> None:
    """Process what events and decisions changed since the last cycle."""
    state, tree, changes, candidates = context.state, context.tree, context.changes, context.candidates
    if tree.width < len(state.registry):
        tree.widen(len(state.registry))
    resized = state.capacity != changes.capacity
    _follow_objects(context, resized)
    if resized:
        changes.capacity = list(state.capacity)
        changes.demand = True
        context.order.restructure()
        for node in tree.root.walk():
            tree.mark(node)
    changes.demand = changes.demand or (changes.usage and context.policy.bounds_moved())
    moved = changes.demand or changes.usage or changes.pods
    candidates.begin_cycle(changes.freed_nodes, changed=changes.pods, gates_moved=moved)
    _set_targets(context)
    if moved or state.victims_changed:
        changes.version += 1
    changes.clear()
    state.changed_jobs.clear()
    state.removed_jobs.clear()
    state.queues_changed = state.nodes_changed = state.victims_changed = False
    context.nodes.compact()
    drop_unused_shapes(context)


def _follow_objects(context: SchedulingContext, resized: bool) -> None:
    """Queues first, because they shape the tree; then nodes, because they decide which tasks are demand; then jobs."""
    state, changes, candidates, sync = context.state, context.changes, context.candidates, context.sync
    if state.queues_changed or state.nodes_changed:
        jobs = dict.fromkeys(state.jobs.values())
    else:
        jobs = state.changed_jobs | candidates.affected_by_capacity(changes.capacity)
    if state.queues_changed:
        sync.follow_queues()
    if state.nodes_changed:
        context.nodes.rebuild(state.nodes.values(), context.tree.width, state.domains)
        changes.freed_nodes.clear()  # indices of the old table; every shape is rechecked
        candidates.nodes_rebuilt()
    for key in state.removed_jobs:
        sync.detach(key)
    if state.queues_changed or resized:
        context.policy.set_bounds()  # a queue's limits decide how much of its jobs counts as demand
    for job in jobs:
        sync.follow_job(job)
    if state.queues_changed or resized or changes.stray_jobs:
        sync.refuse_queues()


def _set_targets(context: SchedulingContext) -> None:
    """Solve the targets if demand changed, and round them to integer targets if demand or usage changed."""
    changes = context.changes
    if changes.demand:
        context.policy.set_bounds()
        changes.target_version += 1
    if changes.demand or changes.usage:
        moved = context.order.refresh_targets(demand_changed=changes.demand)
        context.candidates.follow_targets(moved)


def capacity_came(context: SchedulingContext) -> None:
    """Recheck shapes and units that did not fit, after capacity became free in the middle of a cycle."""
    changes = context.changes
    context.candidates.begin_cycle(changes.freed_nodes, changed=True, gates_moved=True)
    changes.freed_nodes.clear()
    changes.usage_changed()
