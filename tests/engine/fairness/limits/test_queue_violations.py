"""What is wrong with a tree of queues: found where it stands, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from kubebase.resource_vector import CPU, MEMORY, Registry
from pumice.engine.fairness.limits.queue_violations import clamped, violations
from pumice.engine.fairness.share_tree.share_node import NodeKind
from pumice.engine.state.job import Job
from pumice.model.specs import Items, JobPhase, Queue
from tests.support.forests import Forest


def cores(number: int) -> Items:
    return ((CPU, number * 1000),)


def found(*queues: Queue) -> dict[str, str]:
    forest = Forest(*queues)
    return violations(forest.tree, forest.queues, Registry())


@pytest.mark.parametrize("field", ["deserved", "guarantee"])
def test_children_that_have_more_than_their_parent(field: Any) -> None:
    children = [Queue("b", parent="a", **{field: cores(3)}), Queue("c", parent="a", **{field: cores(3)})]
    assert found(Queue("a", **{field: cores(6)}), *children) == {}
    assert found(Queue("a", **{field: cores(5)}), *children) == {
        "a": f"the children of queue 'root/a' have {field} cpu 6 in total, more than the {field} cpu 5 of queue 'a'"
    }
    assert found(Queue("a"), *children) == {}  # a parent that names nothing constrains nobody
    assert found(Queue("a", **{field: ((MEMORY, 1),)}), *children) == {}


def test_grandchild_deserved_counts_when_middle_queue_names_none() -> None:
    # b names nothing; its child's 6 count against a's 5.
    queues = (Queue("a", deserved=cores(5)), Queue("b", parent="a"), Queue("c", parent="b", deserved=cores(6)))
    assert list(found(*queues)) == ["a"]


def test_only_the_queue_whose_numbers_are_off() -> None:
    queues = (
        Queue("a", deserved=cores(9)),
        Queue("b", parent="a", deserved=cores(4)),
        Queue("c", parent="b", deserved=cores(5)),
        Queue("d", parent="a", deserved=cores(5)),
    )
    assert list(found(*queues)) == ["b"]


def test_guarantees_beyond_what_the_parent_may_hold() -> None:
    children = [Queue("b", parent="a", guarantee=cores(4)), Queue("c", parent="a", guarantee=cores(4))]
    assert found(Queue("a", capability=cores(8)), *children) == {}
    assert list(found(Queue("a", capability=cores(6)), *children)) == ["a"]


def test_a_child_that_may_hold_more_than_its_parent() -> None:
    above, child = Queue("a", capability=cores(4)), Queue("c", parent="b", capability=cores(5))
    # b names nothing, so a is who c is measured by.
    assert found(above, Queue("b", parent="a"), child) == {
        "a": (
            "queue 'c' has capability cpu 5, more than the cpu 4 of its ancestor 'a'; lower the first or "
            "raise the second"
        )
    }
    assert list(found(above, Queue("b", parent="a", capability=cores(4)), child)) == ["b"]


def test_the_size_of_the_cluster_is_nobodys_mistake() -> None:
    # 100 milli cores in all.
    assert (
        found(
            Queue("a", deserved=cores(90), guarantee=cores(80), capability=cores(500)), Queue("b", deserved=cores(90))
        )
        == {}
    )


def test_a_job_above_the_leaves() -> None:
    forest = Forest(Queue("a"), Queue("b", parent="a"))
    forest.job("b")
    job = Job("ns/j")
    namespace = forest.tree.child(forest.node["a"], NodeKind.NAMESPACE, "ns")
    forest.tree.add_job(job, namespace)
    wrong = violations(forest.tree, forest.queues, Registry())
    assert wrong == {"a": "job ns/j is in it, but a queue with queues below it takes no jobs"}
    job.phase = JobPhase.COMPLETED
    assert violations(forest.tree, forest.queues, Registry()) == {}


def test_clamped_deserved_is_reported_but_no_violation() -> None:
    queues = {"a": Queue("a", deserved=cores(5), capability=cores(3)), "b": Queue("b", parent="a", deserved=cores(4))}
    assert found(*queues.values()) == {}
    assert clamped(queues, Registry()) == {
        "a": "the children of queue 'root/a' have deserved cpu 4 in total, more than the capability cpu 3 of queue 'a'"
    }
    assert found(Queue("a", deserved=cores(3), guarantee=cores(4)), Queue("b", parent="a", guarantee=cores(4))) == {}
