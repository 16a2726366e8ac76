"""``pumice demo``: three organisations on one cluster, before and after one of them wakes up.

In a terminal the tree is drawn again after every cycle; elsewhere a few snapshots are printed. Both show the same
run of the scenario that comes with the package, and what is said at the end is measured, not assumed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from importlib import resources
from typing import TYPE_CHECKING

import click

from pumice.cli.terminal import coloured, echo

if TYPE_CHECKING:
    from pumice.fairness.tree import ShareNode
    from pumice.sim.simulation import Simulation

SLEEPER = "science"
"""The organisation that is idle at first; its jobs come with the events of the scenario."""

READ = 2.0  # seconds to take in a new situation
FRAME = 0.035
WIDE = 110  # columns from which on amounts are shown beside the shares


@click.command()
@click.option("--yaml", "as_yaml", is_flag=True, help="Print the scenario instead, to change it and run it.")
def demo(as_yaml: bool) -> None:
    """Watch three organisations share a cluster.

    One is idle at first and its part is lent; then it wakes up and gets it back as tasks end.
    """
    source = resources.files("pumice.sim") / "examples" / "demo.yaml"
    if as_yaml:
        echo(source.read_text(encoding="utf-8").rstrip())
        return

    from pumice.sim.files import read_manifests
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
        self.most_idle = 0.0  # the largest part of any resource that was idle after a cycle

    def tell(self, show: Callable[[Story], None]) -> None:
        """Run it, showing every cycle."""

        def seen(simulation: Simulation) -> None:
            self._observe()
            show(self)

        self.simulation.run(seen)

    def _observe(self) -> None:
        engine = self.simulation.cluster.engine
        root, sleeper = engine.tree.root, self._sleeper()
        for held, capacity in zip(root.held, engine.state.capacity, strict=True):
            if held:
                self.most_idle = max(self.most_idle, 1 - held / capacity)
        if self.served is None and self.cycle >= self.wakes:
            entitled = zip(sleeper.held, sleeper.entitled, strict=True)
            if all(held >= amount for held, amount in entitled):
                self.served = self.cycle

    def _sleeper(self) -> ShareNode:
        from pumice.fairness.tree import Kind

        return self.simulation.cluster.engine.tree.root.children[Kind.QUEUE, SLEEPER]

    @property
    def cycle(self) -> int:
        """The cycle that was run last."""
        return self.simulation.cluster.cycles

    @property
    def caption(self) -> str:
        """What is going on."""
        if self.cycle < self.wakes:
            return f"{SLEEPER} is idle: its part of the cluster is lent to the others"
        if self.served is None:
            return f"{SLEEPER} has woken up: tasks that end make room for it, nobody is evicted"
        return f"{SLEEPER} has what it is entitled to, and everybody stays there"

    def picture(self, *, amounts: bool = True) -> str:
        """The tree under its caption."""
        from pumice.cli.render import legend, tree_lines
        from pumice.sim.overview import overview_of_run

        overview = overview_of_run(self.simulation)
        finished = max(0, self.cycle - 2)
        title = f"{click.style(f'cycle {self.cycle:>3}', bold=True)}  {self.caption}"
        return "\n".join(
            [title, "", *tree_lines(overview, amounts=amounts), legend(overview), f"{finished} tasks have ended so far"]
        )

    def moral(self) -> str:
        """What was seen, in a sentence or two."""
        from pumice.sim.report import decisions_report, share_of

        engine = self.simulation.cluster.engine
        part = share_of(self._sleeper().entitled, engine.state.capacity)
        evicted = sum(decision["type"] == "evict" for decision in decisions_report(self.simulation))
        back = "has not got it back" if self.served is None else f"{self.served - self.wakes} cycles later had it"
        idle = f"at most {self.most_idle:.0%}" if self.most_idle else "not one"
        return (
            f"What you saw: {SLEEPER} was idle, and its {part:.0%} of the cluster were lent to the others. It woke\n"
            f"up in cycle {self.wakes} and {back}, by tasks that ended, one in each cycle: {evicted or 'no'}\n"
            f"evictions, and {idle} of the cpus and gpus ever stood idle."
        )


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
            time.sleep(READ if story.cycle in (2, story.wakes, story.served) else FRAME)

        story.tell(show)


def _snapshots(story: Story) -> None:
    def show(story: Story) -> None:
        if story.cycle in (2, story.wakes, story.wakes + 20, story.served):
            echo(story.picture())
            echo()

    story.tell(show)
