"""Targets: what is collected from the tree, solved and written back is what the exact fluid gives, job by job."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.fairness.targets import set_targets
from pumice.fairness.tree import JobNode, ShareNode
from pumice.model.resources import CPU, MEMORY
from tests.oracles.exact_fluid import exact_fluid
from tests.support.groves import GPU, WIDTH, Grove, all_parts, below, groves

A_MILLIONTH = 1e-6


def exact_targets(grove: Grove) -> dict[str, Fraction]:
    """Every job is a leaf of its own, whatever it has in common with others."""
    numbers: dict[ShareNode, int] = {}
    parent: list[int] = []
    weight: list[Fraction] = []
    jobs: list[JobNode] = []
    for node in grove.tree.root.walk():
        if isinstance(node, JobNode):
            if not node.demand.count or any(not grove.capacity[j] for j, _ in node.demand.direction):
                continue
            jobs.append(node)
        numbers[node] = len(parent)
        parent.append(numbers[node.parent] if node.parent is not None else -1)
        weight.append(Fraction(node.weight))
    direction = []
    for job in jobs:
        amounts = dict(job.demand.direction)
        direction.append(
            [Fraction(amounts.get(j, 0), grove.capacity[j]) if grove.capacity[j] else Fraction(0) for j in range(WIDTH)]
        )
    classes = sorted({job.rank_class for job in jobs})
    tasks = exact_fluid(
        parent,
        weight,
        [numbers[job] for job in jobs],
        direction,
        [Fraction(job.demand.count) for job in jobs],
        [classes.index(job.rank_class) for job in jobs],
    )
    return {job.name: target for job, target in zip(jobs, tasks, strict=True)}


def assert_targets_right(grove: Grove) -> None:
    expected = exact_targets(grove)
    for job in grove.jobs:
        assert job.target == pytest.approx(float(expected.get(job.name, 0)), abs=A_MILLIONTH, rel=0)
    for node in grove.tree.root.walk():
        # In steps of 2^-32 tasks, so that sums are exact; in whole units (half up) and as floats for who reads them.
        exact = [0] * WIDTH
        for job in below(node):
            for j, amount in job.demand.direction:
                exact[j] += round(job.target * 2**32) * amount
        assert node.exact == exact
        assert node.entitled == [(amount + 2**31) // 2**32 for amount in exact]
        assert node.due == [amount / 2**32 for amount in exact]


@given(groves(holdings=False), st.booleans())
def test_targets_equal_the_exact_fluid(grove: Grove, classes: bool) -> None:
    for job in grove.jobs:
        job.rank_class = job.before if classes else ()
    set_targets(grove.tree, grove.capacity)
    assert_targets_right(grove)


@given(groves(holdings=False), st.data())
def test_they_still_do_after_anything_changed(grove: Grove, data: st.DataObject) -> None:
    # Whatever is kept from one solve to the next must not show.
    for _ in range(data.draw(st.integers(2, 5))):
        set_targets(grove.tree, grove.capacity)
        assert_targets_right(grove)
        job = data.draw(st.sampled_from(grove.jobs))
        match data.draw(st.sampled_from(["demand", "demand", "weight", "class", "capacity", "leave", "come"])):
            case "demand":
                grove.ask_for(
                    job, data.draw(all_parts() | st.just([])), floor=data.draw(st.sampled_from([(), ((CPU, 90),)]))
                )
            case "weight":
                data.draw(st.sampled_from(grove.groups)).weight = data.draw(st.sampled_from([1.0, 4.0, 0.3]))
            case "class":
                job.rank_class = (data.draw(st.integers(0, 2)),)
                for other in grove.jobs:
                    other.rank_class = other.rank_class or (0,)
            case "capacity":
                grove.capacity[data.draw(st.sampled_from([CPU, MEMORY, GPU]))] = data.draw(st.integers(0, 4000))
            case "leave" if len(grove.jobs) > 1:
                grove.tree.remove(job)
                grove.jobs.remove(job)
            case "come":
                grove.job(job.parent, data.draw(all_parts()), rank_class=job.rank_class)


@given(groves(holdings=False))
def test_equal_jobs_of_a_queue_have_equal_targets(grove: Grove) -> None:
    twins = [
        (job, grove.job(job.parent, job.demand.parts, gang=job.gang, floor=job.demand.floor))
        for job in list(grove.jobs)
    ]
    set_targets(grove.tree, grove.capacity)
    for job, twin in twins:
        assert job.target == twin.target


# --- by hand -------------------------------------------------------------------------------------------------


def test_what_fits_is_the_demand() -> None:
    grove = Grove([10_000, 10_000, 0, 0])
    grove.job(grove.group(weight=9.0), [(((CPU, 1000),), 6)])
    grove.job(grove.group(), [(((CPU, 1000),), 4)])
    set_targets(grove.tree, grove.capacity)
    assert [job.target for job in grove.jobs] == [6.0, 4.0]
    assert grove.tree.root.entitled == [10_000, 0, 0, 0]


def test_weights_and_levels() -> None:
    # 12 cpu: 8 for a (weight 2), 4 for b; in a 3 : 1.
    grove = Grove([12_000, 0, 0, 0])
    a, b = grove.group(weight=2.0), grove.group()
    for parent in (grove.group(a, 3.0), grove.group(a, 1.0), b):
        grove.job(parent, [(((CPU, 1000),), 50)])
    set_targets(grove.tree, grove.capacity)
    assert [job.target for job in grove.jobs] == [6.0, 2.0, 4.0]


def test_a_job_of_unlike_tasks_is_entitled_to_a_part_of_its_sum() -> None:
    # One job asks for 3 x 2 cpu + 2 x 3 memory = 6 cpu, 6 memory; the other for 6 x 1 cpu. 6 cpu, 12 memory:
    # dominant shares 1 and 1 of cpu: half each.
    grove = Grove([6000, 12_000, 0, 0])
    queue = grove.group()
    mixed = grove.job(queue, [(((CPU, 2000),), 3), (((MEMORY, 3000),), 2)])
    plain = grove.job(queue, [(((CPU, 1000),), 6)])
    set_targets(grove.tree, grove.capacity)
    assert (mixed.target, plain.target) == (0.5, 3.0)
    assert mixed.entitled == [3000, 3000, 0, 0]


def test_a_class_is_entitled_after_the_one_before_it() -> None:
    # 10 cpu, one queue: the first class asks for 4 + 4, the second shares the other 2.
    grove = Grove([10_000, 0, 0, 0])
    queue = grove.group()
    for rank, tasks in ((0, 4), (0, 4), (1, 9), (1, 9)):
        grove.job(queue, [(((CPU, 1000),), tasks)], rank_class=(rank,))
    set_targets(grove.tree, grove.capacity)
    assert [job.target for job in grove.jobs] == [4.0, 4.0, 1.0, 1.0]


def test_classes_do_not_change_what_the_queue_gets() -> None:
    grove = Grove([10_000, 0, 0, 0])
    for classes in ((0, 1), (0, 0)):
        queue = grove.group()
        for rank in classes:
            grove.job(queue, [(((CPU, 1000),), 9)], rank_class=(rank,))
    set_targets(grove.tree, grove.capacity)
    assert [job.target for job in grove.jobs] == [5.0, 0.0, 2.5, 2.5]


def test_noise_does_not_cost_a_task() -> None:
    # Thirds of 10^15 bytes and the like: what is whole on paper is whole here.
    grove = Grove([3, 999_999_999_999_999, 0, 0])
    for _ in range(3):
        grove.job(grove.group(weight=0.1), [(((MEMORY, 111_111_111_111_111),), 9)])
    set_targets(grove.tree, grove.capacity)
    assert [job.target for job in grove.jobs] == [3.0, 3.0, 3.0]


@pytest.mark.parametrize("capacity", [[0, 0, 0, 0], [0, 5000, 0, 0]], ids=["nothing", "no cpu"])
def test_what_the_cluster_has_nothing_of_is_not_given(capacity: list[int]) -> None:
    grove = Grove(capacity)
    a = grove.job(grove.group(), [(((CPU, 1000),), 4)])
    b = grove.job(grove.group(), [(((MEMORY, 1000),), 9)])
    set_targets(grove.tree, grove.capacity)
    assert a.target == 0.0 and b.target == capacity[MEMORY] / 1000
