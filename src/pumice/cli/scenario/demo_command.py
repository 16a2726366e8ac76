"""``pumice demo``: three organisations on one cluster. One sleeps and its part is lent; it wakes and has it back.

In a terminal the tree is drawn again after every cycle; elsewhere a few snapshots are printed. Both show the same
run of the scenario that comes with the package, and what is said at the end is measured, not assumed.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import click

from pumice.cli.terminal import coloured, echo

if TYPE_CHECKING:
    from pumice.engine.fairness.share_tree.tree import ShareNode
    from pumice.sim.simulation import Simulation

SLEEPER = "science"
"""The organisation that is idle at first; its jobs come with the events of the scenario."""

FULL = 2  # cycles until every node is full; from then on a task ends in each
READ = 2.5  # seconds to take in a new situation
LATER = 60  # cycles after which a picture shows that it lasts
STEP = 0.3  # while something happens
FRAME = 0.035
WIDE = 120  # columns from which on amounts are shown beside the shares


@click.command()
@click.option("--yaml", "as_yaml", is_flag=True, help="Print the scenario instead, to change it and run it.")
def demo(as_yaml: bool) -> None:
    """Watch three organisations share a cluster.

    One is idle at first and its part is lent; then it wakes up and takes it back, from those who borrowed it.
    """
    from importlib import resources

    source = resources.files("pumice.sim") / "examples" / "demo.yaml"
    if as_yaml:
        echo(source.read_text(encoding="utf-8").rstrip())
        return

    from pumice.sim.manifest_files import read_manifests
    from pumice.sim.simulation import open_simulation

    with resources.as_file(source) as path:
        story = Story(open_simulation(read_manifests([str(path)]), str(path)))
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        _live(story)
    else:
        _snapshots(story)
    echo()
    echo(story.moral())
    echo()
    echo("Try next:")
    echo("  pumice demo --yaml > demo.yaml      the scenario you just saw; change a weight")
    echo("  pumice run demo.yaml                and see what comes out")
    echo("  pumice run --trace demo.yaml        and why: every decision, level by level")
    echo("  pumice entitle demo.yaml            what everybody is entitled to, nothing scheduled")


class Story:
    """The run as it is told: where it stands, and what has been seen so far."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.wakes = simulation.scenario.spec.events[0].cycle
        self.served: int | None = None  # the cycle in which the sleeper had all it is entitled to
        self.evicted: Counter[str] = Counter()  # tasks by the queue that lost them
        self.borrowers: set[str] = set()  # queues that held more than they are entitled to when the sleeper woke up
        self.most_idle = 0.0  # the largest part of any resource that was idle after a cycle
        self._seen = 0  # decisions

    def tell(self, show: Callable[[Story], None]) -> None:
        """Run it, showing every cycle."""

        def seen(simulation: Simulation) -> None:
            self._observe()
            show(self)

        self.simulation.run(seen)

    def _observe(self) -> None:
        from pumice.engine.decisions import Evict

        engine = self.simulation.cluster.engine
        root, sleeper = engine.tree.root, self._sleeper()
        for _, decision in self.simulation.decisions[self._seen :]:
            if isinstance(decision, Evict):
                self.evicted[engine.tree.jobs[decision.job].queue.name] += 1
        self._seen = len(self.simulation.decisions)
        for held, capacity in zip(root.held, engine.state.capacity, strict=True):
            if held:
                self.most_idle = max(self.most_idle, 1 - held / capacity)
        if self.cycle == self.wakes:
            self.borrowers = {queue.name for queue in engine.tree.queues() if _beyond(queue.held, queue.entitled)}
        if self.served is None and self.cycle >= self.wakes and not _beyond(sleeper.entitled, sleeper.held):
            self.served = self.cycle

    def _sleeper(self) -> ShareNode:
        from pumice.engine.fairness.share_tree.tree import NodeKind

        return self.simulation.cluster.engine.tree.root.children[NodeKind.QUEUE, SLEEPER]

    @property
    def cycle(self) -> int:
        """The cycle that was run last."""
        return self.simulation.cluster.cycles

    @property
    def ended(self) -> int:
        """How many tasks have ended by themselves: one a cycle, once the cluster is full."""
        return max(0, self.cycle - FULL)

    @property
    def caption(self) -> str:
        """What is going on."""
        if self.cycle < self.wakes:
            return f"{SLEEPER} is idle: its part of the cluster is lent to whoever can use it"
        if self.served is None:
            return f"{SLEEPER} has woken up: it gets what comes free, and will soon take back what was lent"
        if self.cycle == self.served:
            return (
                f"reclaim: {sum(self.evicted.values())} tasks of {_listed(sorted(self.evicted))} make way for {SLEEPER}"
            )
        return "everybody has what it is entitled to, and stays there"

    def picture(self, *, amounts: bool = True) -> str:
        """The tree under its caption."""
        from pumice.cli.scenario.run_tables import legend, tree_lines
        from pumice.sim.run_overview import overview_of_run

        overview = overview_of_run(self.simulation)
        title = f"{click.style(f'cycle {self.cycle:>3}', bold=True)}  {self.caption}"
        so_far = f"so far {self.ended} tasks have ended, {sum(self.evicted.values())} were evicted"
        return "\n".join([title, "", *tree_lines(overview, amounts=amounts), legend(overview), so_far])

    def moral(self) -> str:
        """What was seen, in a few sentences."""
        from pumice.sim.run_report import share_of

        if self.served is None:
            return f"What you saw: {SLEEPER} woke up in cycle {self.wakes} and did not get its part back."
        part = share_of(self._sleeper().entitled, self.simulation.cluster.engine.state.capacity)
        losses = [f"{self.evicted[queue]} of {queue}" for queue in sorted(self.borrowers & self.evicted.keys())]
        count = sum(count for queue, count in self.evicted.items() if queue not in self.borrowers)
        others = f"{count} of others" if count else "nobody else"
        idle = f"At most {self.most_idle:.0%}" if self.most_idle else "Not one"
        return (
            f"What you saw: {SLEEPER} was idle, and its {part:.0%} of the cluster were lent. It woke up in cycle "
            f"{self.wakes} and {self.served - self.wakes}\n"
            f"cycles later had them back: what came free by itself, and the rest by reclaim. Evicted in all\n"
            f"{self.cycle} cycles: {_listed(losses) or 'nobody'}, who had borrowed; {others}. "
            f"{idle} of the cpus and gpus\never stood idle."
        )


def _beyond(these: Sequence[int], those: Sequence[int]) -> bool:
    """Whether some of these amounts are larger."""
    return any(one > other for one, other in zip(these, those, strict=True))


def _listed(names: Iterable[str]) -> str:
    return " and ".join(", ".join(names).rsplit(", ", 1))


def _live(story: Story) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(no_color=coloured() is False or None)
    # Nothing else prints meanwhile, and what stands in for stdout would not say what it can encode.
    with Live(console=console, auto_refresh=False, vertical_overflow="visible", redirect_stdout=False) as live:

        def show(story: Story) -> None:
            picture = story.picture(amounts=console.width >= WIDE)
            live.update(Text.from_ansi(picture, no_wrap=True, overflow="crop"), refresh=True)
            time.sleep(_pause(story))

        story.tell(show)


def _pause(story: Story) -> float:
    """Seconds for which a picture stands."""
    if story.cycle in (FULL, story.wakes, story.served):
        return READ
    return FRAME if story.cycle < story.wakes or story.served is not None else STEP


def _snapshots(story: Story) -> None:
    def show(story: Story) -> None:
        if story.cycle in (FULL, story.wakes, story.served, story.wakes + LATER):
            echo(story.picture())
            echo()

    story.tell(show)
