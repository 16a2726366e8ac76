"""``pumice demo``: three organisations share a cluster. One is idle, its share is lent, and it reclaims its share.

On a terminal the tree is drawn after every cycle; otherwise a few snapshots are printed. Both show the same run of the
scenario in the package, and the summary at the end is measured.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import click

from pumice.cli.terminal import called_as, echo, use_color

if TYPE_CHECKING:
    from pumice.engine.fairness.share_tree.share_node import ShareNode
    from pumice.sim.simulation import Simulation

IDLE_QUEUE = "science"
"""The organisation that is idle at first; events of the scenario create its jobs."""

FULL_CYCLE = 2  # cycles until every node is full; from then on a task ends in each
READING_SECONDS = 2.5  # seconds to take in a new situation
LATER_CYCLES = 60  # cycles after which a picture shows that it lasts
STEP_SECONDS = 0.3  # while something happens
FRAME_SECONDS = 0.035
WIDE_COLUMNS = 120  # columns from which on amounts are shown beside the shares


@click.command()
@click.option("--yaml", "as_yaml", is_flag=True, help="Print the scenario as YAML instead of running it.")
def demo(as_yaml: bool) -> None:
    """Watch three organisations share a cluster.

    One organisation is idle at first, and its share is lent to the others. When it submits jobs, reclaim evicts
    tasks of the borrowers until it has its share back.
    """
    from importlib import resources

    source = resources.files("pumice.sim") / "examples" / "demo.yaml"
    if as_yaml:
        echo(source.read_text(encoding="utf-8").rstrip())
        return

    from pumice.sim.manifest_files import read_manifests
    from pumice.sim.simulation import open_simulation

    with resources.as_file(source) as path:
        story = DemoRun(open_simulation(read_manifests([str(path)]), str(path)))
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        _draw_live(story)
    else:
        _print_snapshots(story)
    echo()
    echo(story.summary())
    echo()
    echo("Try next:")
    me = called_as("pumice")
    for arguments, meaning in (
        ("demo --yaml > demo.yaml", "the scenario you just saw; change a weight"),
        ("run demo.yaml", "and see what comes out"),
        ("run --trace demo.yaml", "and why: every decision, level by level"),
        ("entitle demo.yaml", "the entitlement of every queue and job"),
    ):
        echo(f"  {me} {arguments:<28} {meaning}")


class DemoRun:
    """The run of the demo: its simulation, and measurements for the summary."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.wake_cycle = simulation.scenario.spec.events[0].cycle
        self.reclaimed_cycle: int | None = None  # the cycle in which the sleeper had all it is entitled to
        self.evicted: Counter[str] = Counter()  # tasks by the queue that lost them
        self.borrowers: set[str] = set()  # queues that held more than they are entitled to when the sleeper woke up
        self.most_idle = 0.0  # the largest part of any resource that was idle after a cycle
        self._seen = 0  # decisions

    def run(self, show: Callable[[DemoRun], None]) -> None:
        """Run it, showing every cycle."""

        def seen(simulation: Simulation) -> None:
            self._observe()
            show(self)

        self.simulation.run(seen)

    def _observe(self) -> None:
        from pumice.engine.decisions import Evict

        engine = self.simulation.cluster.engine
        root, sleeper = engine.tree.root, self._idle_queue()
        for _, decision in self.simulation.decisions[self._seen :]:
            if isinstance(decision, Evict):
                self.evicted[engine.tree.jobs[decision.job].queue.name] += 1
        self._seen = len(self.simulation.decisions)
        for held, capacity in zip(root.held, engine.state.capacity, strict=True):
            if held:
                self.most_idle = max(self.most_idle, 1 - held / capacity)
        if self.cycle == self.wake_cycle:
            self.borrowers = {queue.name for queue in engine.tree.queues() if _exceeds(queue.held, queue.entitled)}
        if (
            self.reclaimed_cycle is None
            and self.cycle >= self.wake_cycle
            and not _exceeds(sleeper.entitled, sleeper.held)
        ):
            self.reclaimed_cycle = self.cycle

    def _idle_queue(self) -> ShareNode:
        from pumice.engine.fairness.share_tree.share_node import NodeKind

        return self.simulation.cluster.engine.tree.root.children[NodeKind.QUEUE, IDLE_QUEUE]

    @property
    def cycle(self) -> int:
        """The cycle that was run last."""
        return self.simulation.cluster.cycles

    @property
    def completed_tasks(self) -> int:
        """The number of completed tasks: one per cycle once the cluster is full."""
        return max(0, self.cycle - FULL_CYCLE)

    @property
    def caption(self) -> str:
        """A description of the current situation."""
        if self.cycle < self.wake_cycle:
            return f"{IDLE_QUEUE} is idle: its share of the cluster is lent to the other queues"
        if self.reclaimed_cycle is None:
            return (
                f"{IDLE_QUEUE} has jobs again: it gets capacity that becomes free, and will soon reclaim what was lent"
            )
        if self.cycle == self.reclaimed_cycle:
            tasks = f"{sum(self.evicted.values())} tasks of {_joined(sorted(self.evicted))}"
            return f"reclaim: {tasks} make way for {IDLE_QUEUE}"
        return "every queue has its entitlement, and keeps it"

    def picture(self, *, amounts: bool = True) -> str:
        """The tree under its caption."""
        from pumice.cli.scenario.run_tables import bar_legend, tree_lines
        from pumice.sim.run_overview import overview_of_run

        overview = overview_of_run(self.simulation)
        title = f"{click.style(f'cycle {self.cycle:>3}', bold=True)}  {self.caption}"
        so_far = f"so far {self.completed_tasks} tasks have ended, {sum(self.evicted.values())} were evicted"
        return "\n".join([title, "", *tree_lines(overview, amounts=amounts), bar_legend(overview), so_far])

    def summary(self) -> str:
        """A summary of the run in a few sentences."""
        from pumice.sim.run_report import dominant_share_of

        if self.reclaimed_cycle is None:
            return (
                f"What you saw: {IDLE_QUEUE} submitted jobs in cycle {self.wake_cycle} and did not get its share back."
            )
        part = dominant_share_of(self._idle_queue().entitled, self.simulation.cluster.engine.state.capacity)
        losses = [f"{self.evicted[queue]} of {queue}" for queue in sorted(self.borrowers & self.evicted.keys())]
        count = sum(count for queue, count in self.evicted.items() if queue not in self.borrowers)
        idle = f"At most {self.most_idle:.0%}" if self.most_idle else "None"
        return (
            f"What you saw: {IDLE_QUEUE} was idle, and its {part:.0%} of the cluster were lent. It submitted "
            f"jobs in cycle {self.wake_cycle},\n"
            f"and {self.reclaimed_cycle - self.wake_cycle} cycles later it had its share back: "
            "capacity that became free, and the rest by reclaim.\n"
            f"Evicted tasks in all {self.cycle} cycles: {_joined(losses) or 'none'} (borrowers), {count} of other "
            "queues.\n"
            f"{idle} of the cpus and gpus was ever idle."
        )


def _exceeds(these: Sequence[int], those: Sequence[int]) -> bool:
    """Whether any amount of the first vector is larger."""
    return any(one > other for one, other in zip(these, those, strict=True))


def _joined(names: Iterable[str]) -> str:
    return " and ".join(", ".join(names).rsplit(", ", 1))


def _draw_live(story: DemoRun) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(no_color=use_color() is False or None)
    # Nothing else prints meanwhile, and a redirected stdout has no encoding for can_encode.
    with Live(console=console, auto_refresh=False, vertical_overflow="visible", redirect_stdout=False) as live:

        def show(story: DemoRun) -> None:
            picture = story.picture(amounts=console.width >= WIDE_COLUMNS)
            live.update(Text.from_ansi(picture, no_wrap=True, overflow="crop"), refresh=True)
            time.sleep(_frame_seconds(story))

        story.run(show)


def _frame_seconds(story: DemoRun) -> float:
    """Seconds to show a frame."""
    if story.cycle in (FULL_CYCLE, story.wake_cycle, story.reclaimed_cycle):
        return READING_SECONDS
    return FRAME_SECONDS if story.cycle < story.wake_cycle or story.reclaimed_cycle is not None else STEP_SECONDS


def _print_snapshots(story: DemoRun) -> None:
    def show(story: DemoRun) -> None:
        if story.cycle in (FULL_CYCLE, story.wake_cycle, story.reclaimed_cycle, story.wake_cycle + LATER_CYCLES):
            echo(story.picture())
            echo()

    story.run(show)
