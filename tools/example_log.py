"""Write ``examples/last-night``, the decision log that docs/last-night.md looks at: one night of a small cluster.

python -m tools.example_log

Four nodes of 8 cpus, two queues of equal weight. At 02:00 sweep of research takes the whole idle cluster. At 02:10
retrain of serving, a gang of 8, wants its half back, and gets it after the patience of 30 s. late of research comes at
02:12 and takes a half of what sweep has left. At 02:40 retrain ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pumice.config.load import read_config
from pumice.config.plugin_loader import plugin_factories
from pumice.decision_log.log_files import log_files
from pumice.decision_log.writer import DecisionLog
from pumice.engine.checkpoint.restore import restore_engine, snapshot_engine
from pumice.engine.config.scheduler_config import DEFAULT_CONFIG
from pumice.engine.decisions import Bind, Enqueue, Evict
from pumice.engine.engine import Engine
from pumice.engine.events import Changed, Event, Gone
from pumice.engine.preemption.cooldown import LIVE
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, Queue, TaskSpec, TaskStatus

FOLDER = Path(__file__).parent.parent / "examples" / "last-night"
SECOND = 1_000_000
NIGHT = round(datetime(2026, 11, 16, 2, tzinfo=UTC).timestamp()) * SECOND
GIB = 1 << 30
GRACE = 20 * SECOND
"""How long an evicted pod takes to end."""


class Night:
    """A cluster that carries out what its scheduler decides."""

    def __init__(self, folder: Path) -> None:
        self.log = DecisionLog(folder)
        config = read_config(DEFAULT_CONFIG, "default")
        self.engine = Engine(config, plugin_factories(config), None, LIVE)
        self.engine.prepare(NIGHT)
        self.now = NIGHT
        self.cycles = 0
        self.tasks: dict[str, TaskSpec] = {}
        self.leaving: dict[str, int] = {}
        self._begin()

    def _begin(self) -> None:
        """A new file, with a new engine."""
        before = self.engine
        snapshot, registry = snapshot_engine(before), before.state.registry
        config = before.policy.config
        self.engine = restore_engine(snapshot, config, plugin_factories(config), registry, before.cooldown)
        self.log.begin(config, before.cooldown, registry, self.cycles, snapshot, self.now)

    def tell(self, event: Event) -> None:
        """An event reaches the scheduler."""
        self.log.told(event, self.engine.state.registry)
        self.engine.apply(event)
        if isinstance(event, Changed) and isinstance(event.object, TaskSpec):
            self.tasks[event.object.key] = event.object

    def submit(self, name: str, queue: str, tasks: int, cpu: int, gang: int = 1) -> None:
        """A job of equal tasks."""
        self.tell(Changed(JobSpec("default", name, queue, self.now, gang, phase=JobPhase.PENDING)))
        for number in range(tasks):
            request = (cpu * 1000, cpu * 2 * GIB, 1)
            self.tell(
                Changed(TaskSpec("default", f"{name}-{number}", request, job=f"default/{name}", created=self.now))
            )

    def run_until(self, seconds: int, *, every: int = 1) -> None:
        """Cycles until so many seconds after the beginning of the night."""
        while self.now < NIGHT + seconds * SECOND:
            self.now += every * SECOND
            self._cycle()

    def _cycle(self) -> None:
        for key in [key for key, until in self.leaving.items() if until <= self.now]:
            del self.leaving[key]
            self.tell(Gone(TaskSpec, key))
            again = replace(self.tasks[key], status=TaskStatus.PENDING, node=None, started=0, created=self.now)
            self.tell(Changed(replace(again, placed=False)))
        self.log.decides(self.engine.state.registry)
        decisions = self.engine.cycle(self.now)
        self.cycles += 1
        self.log.decided(self.cycles, self.now, decisions, self.engine)
        for decision in decisions:
            if isinstance(decision, Bind):
                spec = replace(self.tasks[decision.task], node=decision.node, status=TaskStatus.RUNNING)
                self.tell(Changed(replace(spec, started=self.now, placed=True)))
            elif isinstance(decision, Evict):
                self.tell(Changed(replace(self.tasks[decision.task], status=TaskStatus.RELEASING)))
                self.leaving[decision.task] = self.now + GRACE
            elif isinstance(decision, Enqueue):
                job = self.engine.state.jobs[decision.job].spec
                assert job is not None
                self.tell(Changed(replace(job, phase=JobPhase.INQUEUE)))

    def end(self, name: str) -> None:
        """All tasks of a job succeed, and it is deleted."""
        ending = [task for task in self.tasks.values() if task.job == f"default/{name}"]
        for task in ending:
            self.tell(Changed(replace(task, status=TaskStatus.SUCCEEDED)))
        for task in ending:
            self.tell(Gone(TaskSpec, task.key))
            del self.tasks[task.key]
        self.tell(Gone(JobSpec, f"default/{name}"))


def write_log(folder: Path) -> Sequence[Path]:
    """Write the log of the night; returns its files."""
    night = Night(folder)
    for number in range(1, 5):
        night.tell(Changed(NodeSpec(f"node-{number}", (8000, 32 * GIB, 110), NIGHT)))
    for number, name in enumerate(("research", "serving")):
        night.tell(Changed(Queue(name, NIGHT + number, parent="root")))
    night.submit("sweep", "research", 40, 1)
    night.run_until(300, every=10)
    night.run_until(600, every=60)
    night.submit("retrain", "serving", 8, 2, gang=8)
    night.run_until(720)
    night._begin()
    night.submit("late", "research", 2, 4)
    night.run_until(780)
    night.run_until(2400, every=60)
    night.end("retrain")
    night.run_until(2430)
    night.log.close()
    return log_files(folder)


if __name__ == "__main__":
    for old in log_files(FOLDER) if FOLDER.is_dir() else ():
        old.unlink()
    write_log(FOLDER)
