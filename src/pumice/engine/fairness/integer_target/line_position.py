"""How much of a job's line is handed out, and the unit that the job offers next."""

from __future__ import annotations

from pumice.engine.fairness.integer_target.task_line import SHORT, Line
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode, own_target
from pumice.engine.fairness.share_tree.shared_vectors import shared_vector
from pumice.model.specs import Items


def share_taken(leaf: JobNode) -> None:
    """After the units of a job were counted anew: let it share the counts with jobs that have the same."""
    if len(leaf.taken) <= SHORT:
        leaf.taken = shared_vector(tuple(leaf.taken))


def count_taken(leaf: JobNode, run: int, units: int) -> None:
    """Count units of a run as handed out (negative: as taken back)."""
    if len(leaf.taken) <= SHORT:
        leaf.taken = list(leaf.taken)  # it may have been shared
    leaf.taken[run] += units


def first_left(leaf: JobNode) -> int:
    """The first run of a job's line with units that are not handed out."""
    line, taken = leaf.line, leaf.taken
    while leaf.run < len(line) and taken[leaf.run] == line[leaf.run].number:
        leaf.run += 1
    return leaf.run


def running_left(leaf: JobNode) -> dict[int, int]:
    """The request of the running units of a job that were not handed out to it."""
    total: dict[int, int] = {}
    for k in range(leaf.run, len(leaf.line)):
        items, _, number, held = leaf.line[k]
        if not held:
            break
        for j, amount in items if leaf.taken[k] < number else ():
            total[j] = total.get(j, 0) + amount * (number - leaf.taken[k])
    return total


def set_head(leaf: JobNode, run: int) -> None:
    """Record the unit that a job offers to the passes on its path, so that these find it."""
    leaf.at = run
    head, held = _unit_at(leaf.line, run)
    leaf.head_room = head
    if head == leaf.head and held == leaf.head_held:
        return
    node = leaf.parent
    while node is not None:
        inner = node.inner
        if leaf.head:
            heads = inner.held_heads if leaf.head_held else inner.waiting_heads
            others = heads[leaf.head] - 1
            if others:
                heads[leaf.head] = others
            else:
                del heads[leaf.head]
        if head:
            heads = inner.held_heads if held else inner.waiting_heads
            heads[head] = heads.get(head, 0) + 1
        node = node.parent
    leaf.head, leaf.head_held = head, held


def _unit_at(line: Line, run: int) -> tuple[Items, bool]:
    """The request of the units of a run, and whether they are held; () at the end of the line."""
    return (line[run].items, line[run].held) if run < len(line) else ((), False)


def add_to_targets(leaf: JobNode, items: Items, sign: int) -> None:
    """Add a unit to, or subtract it from, the integer targets on a job's path."""
    own_target(leaf)
    node: ShareNode | None = leaf
    while node is not None:
        whole = node.integer_target
        if sign > 0:
            for j, amount in items:
                whole[j] += amount
        else:
            for j, amount in items:
                whole[j] -= amount
        node = node.parent
