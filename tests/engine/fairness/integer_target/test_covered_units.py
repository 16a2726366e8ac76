"""How many tasks an entitlement covers, counted in tasks: as exact arithmetic on every resource says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubebase.resource_vector import CPU, MEMORY
from pumice.engine.fairness.integer_target.covered_units import base_units, covered_tasks
from pumice.engine.fairness.integer_target.task_line import Line, UnitRun
from pumice.engine.fairness.share_tree.equal_jobs import EXACT
from pumice.model.specs import Items

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
