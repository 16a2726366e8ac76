"""What an entitlement covers, counted in tasks or with rounded entitlements: what exact arithmetic says."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kubebase.resource_vector import CPU, MEMORY
from pumice.engine.fairness.integer_target.covered_units import base_units, covered_tasks, covers_the_same
from pumice.engine.fairness.integer_target.deficits import TOLERANCE
from pumice.engine.fairness.integer_target.rounding import IntegerTargets
from pumice.engine.fairness.integer_target.task_line import Line, UnitRun
from pumice.engine.fairness.share_tree.equal_jobs import EXACT
from pumice.model.specs import Items
from tests.support.groves import GPU, Grove

TASK: Items = ((CPU, 1500), (MEMORY, 3 * 2**30 + 1))


def line_of_tasks(gang: int, held: int, waiting: int) -> Line:
    runs = []
    if gang > 1:
        runs.append(UnitRun(tuple((j, gang * amount) for j, amount in TASK), gang, 1, held >= gang))
        held = max(0, held - gang)
    runs += [UnitRun(TASK, 1, number, here) for number, here in ((held, True), (waiting, False)) if number]
    return tuple(runs)


@given(
    st.integers(1, 5),
    st.integers(0, 1000) | st.integers(0, 10**6),
    st.integers(1, 1000) | st.integers(1, 10**6),
    st.data(),
)
def test_tasks_covered_are_those_of_exact_arithmetic(gang: int, held: int, waiting: int, data: st.DataObject) -> None:
    line = line_of_tasks(gang, held, waiting)
    tasks = data.draw(st.integers(0, gang + held + waiting))
    part = data.draw(st.sampled_from([0.0, 1e-6, -1e-6, 2e-6, -2e-6, -1e-12, 0.5]) | st.floats(-1e-3, 1e-3))
    target = max(0.0, tasks + part * data.draw(st.sampled_from([1, tasks])))
    exact = [0] * 4
    for j, amount in TASK:
        exact[j] = round(target * EXACT) * amount
    units = base_units(exact, line)
    assert covered_tasks(target, line) == sum(run.tasks * n for run, n in zip(line, units, strict=True))


def test_a_gang_is_covered_whole_or_not_at_all() -> None:
    line = line_of_tasks(3, 4, 2)
    assert [covered_tasks(target, line) for target in (2.9, 3.0, 3.5, 4.0, 9.0)] == [0, 3, 3, 4, 6]


KINDS: list[Items] = [((CPU, 3),), ((CPU, 1500), (MEMORY, 10**7 + 1)), ((MEMORY, 3 * 10**7), (GPU, 7)), ((GPU, 50),)]


def moved_job(seed: int) -> tuple[bool, bool]:
    """A job of any tasks whose entitlement moves: whether it is found to cover the same, and whether it does."""
    rng = random.Random(seed)
    grove = Grove([1, 1, 1, 1])
    parts = [(items, rng.randint(1, 3)) for items in rng.sample(KINDS, rng.randint(1, 3))]
    total = sum(count for _, count in parts)
    floor = ((CPU, 10**5),) if rng.random() < 0.3 else ()
    job = grove.job(grove.group(), parts, gang=rng.choice([1, 1, rng.randint(1, total)]), floor=floor)
    for items, count in parts:
        for stamp in range(rng.randint(0, count)):
            grove.start(grove.tree, job, items, stamp)
    units = [items for items, count in parts for _ in range(count)]
    covered, other = [0] * 4, [0] * 4
    for amounts in (covered, other):
        for items in rng.sample(units, rng.randint(0, len(units))):
            for j, amount in items:
                amounts[j] += amount
    if rng.random() < 0.5:
        covered = [rng.choice(pair) for pair in zip(covered, other, strict=True)]
    rounding = IntegerTargets(grove.tree)

    def entitle_about() -> None:
        hairs = [0, 1, EXACT // 2, EXACT, 2 * EXACT, 9 * EXACT]
        exact = [
            amount * EXACT + rng.choice([-1, 1]) * rng.choice([*hairs, amount * EXACT // TOLERANCE])
            for amount in covered
        ]
        job.entitle([max(0, amount) for amount in exact])

    entitle_about()
    rounding._set_base(job)
    before = list(job.taken)
    entitle_about()
    found = covers_the_same(job)
    rounding._set_base(job)
    return found, job.taken == before


def test_an_entitlement_found_to_cover_the_same_does() -> None:
    found = [moved_job(seed) for seed in range(4000)]
    assert (True, False) not in found
    assert found.count((True, True)) > 400
    assert (False, False) in found
