"""docs/concepts.md: its commands print what is shown, and its pictures are what happens in the examples."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from pumice.engine.plugins.builtin import BUILT_IN
from pumice.engine.preemption.cooldown import LIVE
from pumice.sim.manifest_files import read_manifests
from pumice.sim.simulation import Simulation, open_simulation
from tests.support.shell_pages import ROOT, Shown, Terminal, shown

DOCS = ROOT / "docs"
PAGE = (DOCS / "concepts.md").read_text(encoding="utf-8")
FLAT = " ".join(PAGE.split())  # wherever lines end
CYCLE = re.compile(r"^ cycle (\d+) +(\[.*\])", re.MULTILINE)


@pytest.mark.parametrize("one", shown(PAGE), ids=[one.command for one in shown(PAGE)])
def test_concepts_page_command_prints_shown_output(one: Shown, tmp_path: Path) -> None:
    assert one.output
    Terminal(tmp_path).type(one)


def by_cycle(example: str, look: Callable[[Simulation], Any]) -> dict[int, Any]:
    """What was to be seen after each cycle of an example."""
    simulation = open_simulation(read_manifests([str(ROOT / "examples" / example)]), example)
    found: dict[int, Any] = {}
    simulation.run(lambda running: found.update({running.cluster.cycles: look(running)}))
    return found


def on_nodes(simulation: Simulation) -> dict[str, Counter[str]]:
    """Cpus by node and job."""
    found: dict[str, Counter[str]] = {}
    for task in simulation.cluster.engine.state.tasks.values():
        if task.status.held and task.node is not None:
            name = task.spec.job.rpartition("/")[2] if task.spec.job else ""
            cpus = dict(task.shape.ask)[0] // 1000
            found.setdefault(str(getattr(task.node, "name", task.node)), Counter())[name] += cpus
    return found


def drawn(picture: str) -> dict[int, list[str]]:
    """The rows of a picture: by cycle, the nodes as they are drawn."""
    return {int(cycle): re.split(r"  +(?=\[)", nodes) for cycle, nodes in CYCLE.findall(picture)}


def test_the_picture_of_the_gang() -> None:
    rows = drawn(PAGE.partition("## Queues and their tree")[0])
    happened = by_cycle("gang.yaml", on_nodes)
    assert set(rows) == {1, 2}
    for cycle, (node,) in rows.items():
        assert Counter({"serve": node.count("[s]"), "train": node.count("[t]")}) == happened[cycle]["n1"]
        assert node.count("[") == 12


def test_the_picture_of_the_hold() -> None:
    rows = drawn(PAGE.partition("## Hold")[2])
    happened = by_cycle("hold.yaml", on_nodes)
    assert set(rows) == {3, 4, 6, 11}
    for cycle, nodes in rows.items():
        for name, node in zip(("n1", "n2"), nodes, strict=True):
            expected = Counter({"big": 4} if "big" in node else {"small": node.count("[s]")})
            assert happened[cycle][name] == expected, (cycle, name)


def test_the_picture_of_lending() -> None:
    """Bars are as wide as shares; 100 cpu are the whole width."""
    bars: dict[int, Counter[str]] = {}
    for bar in ElementTree.parse(DOCS / "pictures" / "lending.svg").iter("{http://www.w3.org/2000/svg}rect"):
        if cycle := bar.get("data-cycle"):
            bars.setdefault(int(cycle), Counter())[str(bar.get("data-queue"))] += int(bar.get("width", "0"))

    def shares(simulation: Simulation) -> dict[str, int]:
        root = simulation.cluster.engine.tree.root
        return {str(node.queue_name): node.held[0] for node in root.walk() if node.queue_name not in (None, "root")}

    happened = by_cycle("reclaim.yaml", shares)
    assert set(bars) == {1, 2, 3}
    for cycle, widths in bars.items():
        whole = sum(widths.values())
        assert {queue: widths[queue] * 100_000 // whole for queue in happened[cycle]} == happened[cycle]


def test_four_jobs_for_three_cpus(tmp_path: Path) -> None:
    """3 cpu by 4 jobs of one task: 0.75 of a task each, in whole ones one for three of them."""
    assert "entitled to 0.75 tasks of 1 cpu each, and three of them have a whole target of one" in FLAT
    objects: list[object] = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": 3}}},
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}},
    ]
    containers = [{"name": "main", "resources": {"requests": {"cpu": 1}}}]
    for name in "abcd":
        task = {"name": "main", "replicas": 1, "template": {"spec": {"containers": containers}}}
        spec = {"queue": "q", "minAvailable": 1, "tasks": [task]}
        objects.append(
            {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
        )
    file = tmp_path / "four.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    simulation = open_simulation(read_manifests([str(file)]), str(file))
    simulation.run()
    jobs = list(simulation.cluster.engine.tree.jobs.values())
    assert [round(leaf.target, 6) for leaf in jobs] == [0.75] * 4
    assert sorted(leaf.integer_target[0] for leaf in jobs) == [0, 1000, 1000, 1000]


def test_the_seconds_are_those_of_the_code() -> None:
    drf = {argument.name: argument.default for argument in BUILT_IN["drf"].takes}
    assert f"something for {LIVE.patience // 1_000_000} s (`reclaim.patience`)" in FLAT
    assert f"have run for {LIVE.min_runtime // 1_000_000} s (`reclaim.minRuntime`)" in FLAT
    assert f"After {drf['drf.patience']} s (`drf.patience`)" in FLAT


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)]+)\)", PAGE))
def test_links(link: str) -> None:
    file, _, place = link.partition("#")
    assert (DOCS / file).exists()
    if place:
        titles = re.findall(r"^#+ (.*)$", (DOCS / file).read_text(encoding="utf-8"), re.MULTILINE)
        assert place in {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
