"""Taking back what queues deserve, cycle by cycle, where some name only a part of the resources.

See docs/fairness.md, sections 6.3 and 9.5.

What a parent does not name it leaves to those below it; what a queue does not name itself it can only borrow.
"""

from __future__ import annotations

from typing import Any

import pytest

from kubebase.resource_vector import CPU, MEMORY
from pumice.model.specs import Items
from tests.support.taking import Shell, taking_engine


def capacity(cpu: int, memory: int = 1000, **arguments: object) -> Shell:
    """One node, queues by what they deserve."""
    shell = Shell(taking_engine("capacity", plugins=("gang",), arguments=arguments))
    shell.node("n", cpu, memory)
    return shell


def comes_back(shell: Shell, lender: str, borrower: str) -> tuple[int, int]:
    """The borrower fills the node with tasks of one cpu before the lender wants as many; returns how many run then."""
    for queue in (borrower, lender):
        shell.job(queue, [(1,)] * 8)
        shell.settle()
    return shell.running(lender), shell.running(borrower)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_parent_that_names_nothing_leaves_the_judgement_to_its_child(level: int) -> None:
    # 8 cpu, a1 and b deserve 4 each; a above a1 is silent, whoever is asked to judge.
    shell = capacity(8, ancestorReclaimLevel=level)
    shell.child("a")
    shell.child("a1", "a", deserved=((CPU, 4),))
    shell.child("b", deserved=((CPU, 4),))
    assert comes_back(shell, "a1", "b") == (4, 4)


def test_silent_parents_on_both_sides_tie_and_are_no_obstacle() -> None:
    # a and b deserve nothing, so both stand at 1. Of the 8 cpu that b1 borrowed 4 are a1's.
    shell = capacity(8)
    for parent, more in (("a", {"deserved": ((CPU, 4),)}), ("b", {})):
        shell.child(parent)
        shell.child(f"{parent}1", parent, **more)
    assert comes_back(shell, "a1", "b1") == (4, 4)


@pytest.mark.parametrize(
    "named",
    [{}, {"deserved": ((MEMORY, 4),)}, {"guarantee": ((MEMORY, 1),)}],
    ids=["nothing", "deserves memory", "is guaranteed memory"],
)
def test_resource_absent_from_deserved_is_borrowed_and_reclaimable(named: dict[str, Any]) -> None:
    # b has all 8 cpu and a right to none of them: a gets its 4.
    shell = capacity(8, 8)
    shell.child("a", deserved=((CPU, 4),))
    shell.child("b", **named)
    assert comes_back(shell, "a", "b") == (4, 4)


@pytest.mark.parametrize("gang", [1, 2])
@pytest.mark.parametrize("swapped", [False, True])
def test_two_queues_with_rights_to_different_resources_do_not_take_turns(gang: int, swapped: bool) -> None:
    # Room for two tasks of 2 cpu and 2 memory. One queue deserves all the cpu, the other all the memory, and every
    # task needs both. Each is measured by what it names: 1 against 0, and after one task has changed hands a half
    # against a half. There it stays. A gang of both would be 0 against 1: illegal.
    rights: list[Items] = [((CPU, 4),), ((MEMORY, 4),)]
    shell = capacity(4, 4)
    for side, deserved in zip("ab", reversed(rights) if swapped else rights, strict=True):
        shell.child(side)
        shell.child(f"{side}1", side, deserved=deserved)
        shell.job(f"{side}1", [(2, 2)] * 2, gang)
        shell.settle(20)
    moved = 1 if gang == 1 else 0
    assert len(shell.evictions) == moved
    assert (shell.running("a1"), shell.running("b1")) == (2 - moved, moved)


# --- what has to be taken and what lies idle --------------------------------------------------------------------------


def lent_memory(held_cpu: int, deserved_cpu: int) -> Shell:
    """16 cpu and 8 memory. b has borrowed all the memory; a deserves 4 of it, and holds so much cpu already."""
    shell = capacity(16, 8)
    shell.child("a", deserved=((CPU, deserved_cpu), (MEMORY, 4)))
    shell.child("b", deserved=((CPU, 8), (MEMORY, 4)))
    shell.job("b", [(0, 1)] * 8)
    shell.job("a", [(1, 0)] * held_cpu)
    shell.settle()
    return shell


def test_preemptor_may_borrow_idle_resource_beside_reclaimed_one() -> None:
    # a holds 6 cpu and deserves 4; 10 lie idle. Its tasks of 1 cpu and 1 memory have to take memory alone.
    shell = lent_memory(6, 4)
    shell.job("a", [(1, 1)] * 8)
    shell.settle()
    memory = shell.engine.tree.root.children
    assert [queue.held[MEMORY] for queue in memory.values()] == [4, 4]
    assert len(shell.evictions) == 4


def test_reclaim_is_refused_when_reclaimed_resource_exceeds_deserved() -> None:
    # The same with all cpu in use: a holds 6 of the 4 that it deserves, so it can't take more of it.
    shell = lent_memory(6, 4)
    shell.job("b", [(1, 0)] * 10)
    shell.settle()
    shell.job("a", [(1, 1)] * 8)
    shell.settle()
    assert not shell.evictions
