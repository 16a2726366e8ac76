"""docs/extending.md: every command in it runs, its hooks are the hooks, and the example is as short as it says."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pumice.cli.why.report_output import report_lines
from pumice.engine import (
    ACTIONS,
    BUILT_IN,
    Bind,
    Changed,
    Decision,
    Engine,
    Evict,
    Gone,
    JobPhase,
    JobSpec,
    NodeSpec,
    Queue,
    Registry,
    TaskSpec,
    TaskStatus,
    parse_config,
)
from pumice.engine.config.enable_flags import Flag
from pumice.engine.explain.explain import explain
from pumice.engine.preemption import preemptors
from pumice.plugin import CPU, Plugin
from tests.support.engine_forms import counts_calls
from tests.support.processes import run_process

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^((?:pip|pumice) .*)$", TEXT, re.MULTILINE)
EXAMPLE = ROOT / "examples" / "plugins" / "joblimit"


def command(line: str, target: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the page, with what it installs in a folder of its own, and without a network."""
    module, *arguments = shlex.split(line)
    if module == "pip":
        arguments += ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(target)]
    path = os.pathsep.join([str(target), str(ROOT / "src")])
    return run_process(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_command_runs(tmp_path: Path) -> None:
    outputs = []
    for line in COMMANDS:
        done = command(line, tmp_path)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        outputs.append(done.stdout)
    assert [line.split()[0] for line in COMMANDS] == ["pip", "pumice", "pumice"]
    assert "condition default/third: 2 jobs of its queue run" in outputs[1]
    assert "1 passed, 0 failed" in outputs[2]


def test_configuration_with_uninstalled_plugin_is_rejected(tmp_path: Path) -> None:
    done = command("pumice check examples/plugins/joblimit/scenario.yaml", tmp_path)
    assert done.returncode != 0
    assert 'spec.config: line 5: unknown plugin "joblimit"' in done.stdout + done.stderr


def test_arguments_that_the_example_refuses(tmp_path: Path) -> None:
    command(COMMANDS[0], tmp_path)
    scenario = tmp_path / "scenario.yaml"
    text = (EXAMPLE / "scenario.yaml").read_text(encoding="utf-8")
    scenario.write_text(text.replace("joblimit.most: 2", "joblimit.most: none"), encoding="utf-8")
    done = command(f"pumice check {scenario}", tmp_path)
    assert done.returncode != 0
    message = (
        "spec.config: line 6: plugin joblimit: argument joblimit.most: 'none' given; write a whole number, 1 or more"
    )
    assert message in done.stdout + done.stderr


def test_the_table_lists_the_hooks() -> None:
    rows = re.findall(r"^\| (`.*?) \|.*\| (.*?) ?\|$", TEXT, re.MULTILINE)
    hooks = [name for names, _ in rows for name in re.findall(r"`(\w+)`", names)]
    methods = [name for name, found in vars(Plugin).items() if inspect.isfunction(found) and name != "__init__"]
    assert sorted(hooks) == sorted(methods)
    known = {flag.value for flag in Flag}
    for names, flag in rows:
        assert flag.strip("`") in known or not flag, f"{names}: {flag}"
        # The docstring of the hook names its flag too.
        assert not flag or flag.strip("`") in (getattr(Plugin, names.split("`")[1]).__doc__ or ""), names


def test_the_example_is_twenty_lines() -> None:
    code = [line for line in (EXAMPLE / "joblimit.py").read_text(encoding="utf-8").splitlines() if line.strip()]
    assert len(code) <= 20


@pytest.mark.parametrize("link", re.findall(r"\]\((\.\./[^)]+)\)", TEXT))
def test_links(link: str) -> None:
    assert (ROOT / "docs" / link).exists()


# ---- limits: what the page says of a limit with and without some of its hooks --------------------------------------

CONFIG = """
actions: "allocate, reclaim"
tiers:
- plugins:
  - name: gang
  - name: drf
    enableHierarchy: true
  {capacity}
  - name: cpulimit
"""


def cpu_limit(*without: str) -> type[Plugin]:
    """The plugin of the page, less some of its hooks."""
    (block,) = BLOCKS
    found: dict[str, type[Plugin]] = {}
    exec(compile(block, "docs/extending.md", "exec"), found)
    return type("CpuLimit", (found["CpuLimit"],), {hook: getattr(Plugin, hook) for hook in without})


class LimitedCluster:
    """Ten CPUs that queue ``other`` holds, until a job in ``solvers`` takes back what the plugin lets it have."""

    def __init__(self, plugin: type[Plugin], capacity: bool = True) -> None:
        factories = {**BUILT_IN, "cpulimit": plugin}
        text = CONFIG.format(capacity="- name: capacity" if capacity else "")
        self.registry = Registry()
        self.engine = Engine(
            parse_config(text, known_plugins=factories, known_actions=ACTIONS), factories, self.registry
        )
        self.seconds = 0
        self.node("n1")
        for queue in ("solvers", "other"):
            self.engine.apply(Changed(Queue(queue)))
        self.job("other", 20)
        self.cycle()
        self.job("solvers", 6)
        self.cycle()
        self.cycle()

    def node(self, name: str) -> None:
        self.engine.apply(Changed(NodeSpec(name, self.registry.vector({"cpu": 10, "memory": 9, "pods": 99}, where=""))))

    def job(self, name: str, tasks: int) -> None:
        self.engine.apply(Changed(JobSpec("d", name, name, phase=JobPhase.INQUEUE)))
        ask = self.registry.vector({"cpu": 1, "pods": 1}, where="")
        for i in range(tasks):
            self.engine.apply(Changed(TaskSpec("d", f"{name}-{i}", ask, job=f"d/{name}")))

    def cycle(self) -> list[Decision]:
        self.seconds += 1
        decisions = self.engine.cycle(self.seconds * 1_000_000)
        for decision in decisions:
            if isinstance(decision, Bind):
                spec = self.engine.state.tasks[decision.task].spec
                self.engine.apply(Changed(replace(spec, node=decision.node, status=TaskStatus.RUNNING)))
            elif isinstance(decision, Evict):
                self.engine.apply(Gone(TaskSpec, decision.task))
        return decisions

    def held(self, queue: str) -> int:
        return next(node for node in self.engine.tree.queues() if node.name == queue).held[CPU]

    def why(self) -> str:
        answer = explain(self.engine, "d/solvers", self.engine.now)
        assert answer is not None
        return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(report_lines(answer, virtual=True)))


@pytest.mark.parametrize("capacity", [True, False])
@pytest.mark.parametrize("without", [(), ("preemptive",), ("set_bounds",), ("preemptive", "set_bounds")])
def test_the_limit_is_kept_whatever_hooks_it_has(without: tuple[str, ...], capacity: bool) -> None:
    cluster = LimitedCluster(cpu_limit(*without), capacity)
    assert (cluster.held("solvers"), cluster.held("other")) == (2000, 8000)
    assert not [decision for decision in cluster.cycle() if isinstance(decision, Evict)]


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs for which victims were searched."""
    found: list[str] = []
    search: Callable[..., preemptors.VictimSearch] = preemptors.VictimSearch

    def noted(context: object, leaf: preemptors.JobNode, *more: object, **named: object) -> preemptors.VictimSearch:
        found.append(leaf.name)
        return search(context, leaf, *more, **named)

    monkeypatch.setattr(preemptors, "VictimSearch", noted)
    return found


@counts_calls
@pytest.mark.parametrize("without", [("set_bounds",), ("preemptive", "set_bounds")])
def test_preemptive_hook_avoids_futile_victim_search(searches: list[str], without: tuple[str, ...]) -> None:
    cluster = LimitedCluster(cpu_limit(*without))
    searches.clear()
    cluster.job("other", 21)  # something changes
    cluster.cycle()
    why = cluster.why()
    if "preemptive" in without:
        assert searches
        assert "takes back what other queues hold beyond their part" in why
    else:
        assert not searches
        assert "takes nothing back from other queues: queue solvers may hold cpu 2" in why


def test_job_above_limit_stays_owed_without_set_bounds() -> None:
    why = LimitedCluster(cpu_limit("set_bounds")).why()
    assert "entitled to 5 tasks" in why
    assert "which it is owed" in why
    assert re.search("capacity will be reserved in .* for it on n1", why)
    why = LimitedCluster(cpu_limit()).why()
    assert "entitled to 2 tasks" in why
    assert "which it is not owed" in why
    assert "room will be kept" not in why


def test_why_names_limit_of_third_party_plugin() -> None:
    why = LimitedCluster(cpu_limit("set_bounds")).why()
    assert why.startswith("d/solvers runs 2 of 6 tasks and waits: queue solvers may hold cpu 2\n")
    assert "LIMITS\n  queue solvers may hold cpu 2\n" in why
    assert "TO START\n  - wait until plugin cpulimit accepts it\n" in why
    assert "AT MOST" not in why
    assert "AT MOST" in LimitedCluster(cpu_limit(), capacity=False).why()


def test_capacity_refuses_what_is_beyond_the_ceiling_of_a_plugin_behind_it() -> None:
    cluster = LimitedCluster(cpu_limit("allocatable", "preemptive"))
    assert cluster.held("solvers") == 2000
    assert "queue solvers may hold at most cpu 2" in cluster.why()


@pytest.mark.parametrize("capacity", [True, False])
def test_the_other_resources_of_the_ceiling_follow_the_cluster(capacity: bool) -> None:
    cluster = LimitedCluster(cpu_limit(), capacity)
    cluster.node("n2")
    cluster.cycle()
    (queue,) = (node for node in cluster.engine.tree.queues() if node.name == "solvers")
    assert queue.ceiling == [2000, 18, 198]
