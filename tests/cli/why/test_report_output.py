"""The text of ``pumice why`` on terminals of some width."""

from __future__ import annotations

import copy
import re
from dataclasses import replace

import click
import pytest

from kubebase.resource_vector import Registry
from pumice.cli.why.report_output import report_lines
from pumice.engine.explain import explain
from pumice.engine.explain.wait_report import WaitReport
from pumice.engine.explain.wording import AmountFormatter
from pumice.sim.manifest_files import read_manifests
from pumice.sim.simulation import open_simulation
from tests.cli.command import EXAMPLES


@pytest.fixture(scope="module")
def report() -> WaitReport:
    """A waiting job of the demo, three levels deep and with several resources."""
    path = str(EXAMPLES / "demo.yaml")
    simulation = open_simulation(read_manifests([path]), path)
    simulation.run()
    engine = simulation.cluster.engine
    waiting = next(key for key, job in sorted(engine.state.jobs.items()) if job.pending)
    found = explain(engine, waiting, simulation.cluster.now)
    assert found is not None and found.contest is not None
    return found


def words(lines: list[str]) -> list[str]:
    return re.findall(r"\S+", " ".join(map(click.unstyle, lines)))


def test_no_line_is_longer_than_the_terminal(report: WaitReport) -> None:
    free = list(report_lines(report, virtual=True))
    assert max(len(click.unstyle(line)) for line in free) > 80, "otherwise there is nothing to wrap"
    for columns in (60, 80, 100):
        lines = list(report_lines(report, virtual=True, columns=columns))
        assert max(len(click.unstyle(line)) for line in lines) <= columns
    assert list(report_lines(report, virtual=True, columns=500)) == free


def test_a_narrow_terminal_shows_all_levels(report: WaitReport) -> None:
    assert report.contest is not None
    said = words(list(report_lines(report, virtual=True, columns=60)))
    for rung in report.contest.rungs:
        name = rung.ours.name.rpartition("/")[2] if rung.ours.name.startswith("root/") else rung.ours.name
        assert {name, f"{name}:"} & {*said}
    assert said.count("used") >= len(report.contest.rungs)


def test_jobs_stand_for_their_podgroups(report: WaitReport) -> None:
    contest = report.contest
    assert contest is not None
    group = "default/train-579de541-9f0d-44ef-9ccc-8586a0f02f20"
    level = replace(contest.rungs[-1], ours=replace(contest.rungs[-1].ours, name=group))
    answer = copy.copy(report)
    answer.job, answer.verdict = group, f"{group} waits: it is late"
    answer.contest = replace(contest, rungs=[*contest.rungs[:-1], level], first_job=group)
    answer.needs = [f"no action needed: it preempts in 57 s: 3 tasks of {group}, root/{group}-1 are evicted (reclaim)"]
    for columns in (None, 80):
        lines = [click.unstyle(line) for line in report_lines(answer, columns=columns, names={group: "default/train"})]
        assert lines[0] == "default/train waits: it is late"
        assert next(line.strip() for line in lines if group in line) == f"PodGroup {group}"
        assert any(line.strip().startswith("default/train") for line in lines[lines.index("TURN") :])
        assert not any("would be served first" in line for line in lines)
        assert f"of default/train, root/{group}-1 are evicted (reclaim)" in " ".join(words(lines))
    heading = lines_of(answer, {group: "default/train"}, "LEVEL")
    plain = lines_of(answer, {}, "LEVEL")
    assert len(heading) < len(plain), "the columns are as wide as what they show"


def lines_of(answer: WaitReport, names: dict[str, str], start: str) -> str:
    lines = (click.unstyle(line).strip() for line in report_lines(answer, names=names))
    return next(line for line in lines if line.startswith(start))


def test_parts_of_devices_are_decimals() -> None:
    registry = Registry()
    gpu = registry.index("nvidia.com/gpu")
    found = AmountFormatter(registry)
    assert [found.amount(gpu, amount) for amount in (10_667, 9_600, 2_000)] == ["10.667", "9.6", "2"]
    assert found.amount(0, 1_500) == "1500m"
