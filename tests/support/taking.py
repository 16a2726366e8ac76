"""A cluster that takes back: a shell around an engine that carries out what it decides, evictions above all.

A bound task runs; an evicted one is being released for a number of cycles, then it is gone and its controller makes it
anew, as pending, at once or after some cycles. A pipelined task is left alone: the engine binds it later. Every cycle
goes through the ``Book``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kubebase.resource_vector import PODS, Registry
from pumice.engine.actions import ACTIONS
from pumice.engine.config.scheduler_config import parse_config
from pumice.engine.decisions import Bind, Decision, Evict, Pipeline
from pumice.engine.engine import Engine
from pumice.engine.events import BindFailed, Changed, EvictFailed, Gone
from pumice.engine.plugins.builtin import BUILT_IN
from pumice.engine.preemption.cooldown import NO_COOLDOWN, PreemptionCooldown
from pumice.model.specs import FREE, Constraints, Described, JobPhase, JobSpec, NodeSpec, Queue, TaskSpec, TaskStatus
from tests.support.eviction_book import Book, Request

SECOND = 1_000_000

CONFIG = """
actions: "{actions}"
tiers:
- plugins: [{first}]
- plugins:
{orders}
{last}
"""
DRF = """
  - name: drf
    enableHierarchy: {hierarchy}
    enableNamespaceOrder: {namespaces}
    arguments: {arguments}
"""


def taking_engine(
    rule: str = "steer",
    *,
    actions: str = "allocate, backfill, reclaim, preempt",
    plugins: Sequence[str] = ("priority", "gang", "conformance"),
    last: Sequence[str] = (),
    namespaces: bool = False,
    arguments: Mapping[str, object] = {},
    cooldown: PreemptionCooldown = NO_COOLDOWN,
    registry: Registry | None = None,
) -> Engine:
    """An engine that takes back. ``rule``: steer, paper, flat, or the name of a plugin that orders queues.

    ``plugins`` go ahead of what orders the queues, ``last`` come after it.
    """
    if rule in ("steer", "paper", "flat"):
        settings = {"drf.rule": rule, **arguments} if rule != "flat" else dict(arguments)
        orders = DRF.format(
            hierarchy=str(rule != "flat").lower(), namespaces=str(namespaces).lower(), arguments=settings
        )
    else:
        orders = f"  - name: {rule}\n    arguments: {dict(arguments)}"
    first, after = (", ".join(f"{{name: {name}}}" for name in names) for names in (plugins, last))
    text = CONFIG.format(actions=actions, first=first, orders=orders, last=f"- plugins: [{after}]" if after else "")
    return Engine(parse_config(text, known_plugins=BUILT_IN, known_actions=ACTIONS), BUILT_IN, registry, cooldown)


# --- the shell ------------------------------------------------------------------------------------------------------


class Shell:
    """Carries out what an engine decides; ``grace`` is how many cycles an evicted task takes to be gone."""

    def __init__(self, engine: Engine, *, grace: int = 0, audited: bool = True) -> None:
        self.engine = engine
        self.grace = grace
        self.now = 0
        self.cycles = 0
        self.tasks: dict[str, TaskSpec] = {}
        self.queue_of: dict[str, str] = {}  # by job
        self.evictions: list[tuple[int, Evict]] = []  # with the cycle
        self.fails: Callable[[Decision], bool] = lambda _: False  # binds and evictions that can't be carried out
        self.leaving: dict[str, int] = {}  # evicted tasks, and the cycle after which each is gone
        self.returns = False  # whether tasks say that they are made anew
        self.away: Callable[[], int | None] = lambda: 0  # for how many cycles a task is gone; None: for ever
        self.pace = SECOND  # the time between two cycles
        self.gone: dict[str, tuple[TaskSpec, int]] = {}  # tasks that will be made anew, and in which cycle
        self.early: Callable[[], bool] = lambda: False  # whether one of another name is made when a task is evicted
        self._replaced: set[str] = set()  # those whose successors were made then
        self.book = Book(engine) if audited else None
        self._number = 0

    # --- what comes in ----------------------------------------------------------------------------------------------

    def put(self, described: Described) -> None:
        if isinstance(described, TaskSpec):
            self.tasks[described.key] = described
        elif isinstance(described, JobSpec):
            self.queue_of[described.key] = described.queue
        self.engine.apply(Changed(described))

    def node(self, name: str, *offers: int, **more: Any) -> None:
        """A machine with so much cpu, memory and places (1000 unless said), in that order."""
        vector = [*offers, *(1000 for _ in range(3 - len(offers)))] if len(offers) < 3 else list(offers)
        self.put(NodeSpec(name, tuple(vector), **more))

    def queue(self, path: str, weights: str | None = None, **more: Any) -> None:
        """A queue at ``root/a/b`` with weights ``1/2/3``."""
        self._number += 1
        name = path.replace("root/", "").replace("/", "-")
        weights = weights or "/".join("1" for _ in path.split("/"))
        self.put(Queue(name, self._number, path=path, path_weights=weights, **more))

    def child(self, name: str, parent: str = "root", **more: Any) -> None:
        """A queue that names its parent."""
        self._number += 1
        self.put(Queue(name, self._number, parent=parent, **more))

    def job(
        self,
        queue: str,
        requests: Iterable[Request],
        gang: int = 1,
        *,
        name: str | None = None,
        priority: int | None = None,
        constraints: Constraints = FREE,
        roles: Sequence[str] = (),
        minimums: Mapping[str, int] = {},
        labels: Mapping[str, str] = {},
        namespace: str = "ns",
    ) -> str:
        """A job of tasks that ask for so much cpu and memory; returns its key."""
        self._number += 1
        spec = JobSpec(
            namespace,
            name or f"{queue}-j{self._number}",
            queue,
            self._number,
            gang,
            min_task_member=dict(minimums),
            phase=JobPhase.INQUEUE,
        )
        self.put(spec)
        for i, request in enumerate(requests):
            vector = [*request, *(0 for _ in range(3 - len(request)))]
            vector[PODS] = 1
            self.put(
                TaskSpec(
                    namespace,
                    f"{spec.name}-t-{i}",
                    tuple(vector),
                    job=spec.key,
                    created=self._number,
                    role=roles[i] if roles else "",
                    priority=priority,
                    constraints=constraints,
                    labels=labels,
                    returns=self.returns,
                )
            )
        return spec.key

    def end(self, key: str, *, again: bool = False) -> None:
        """A running task is done; ``again``: an equal one waits in its place."""
        spec = self.tasks.pop(key)
        self.engine.apply(Gone(TaskSpec, key))
        if again:
            self._number += 1
            self.put(
                replace(
                    spec,
                    name=f"{spec.name.split('+')[0]}+{self._number}",
                    status=TaskStatus.PENDING,
                    node=None,
                    started=0,
                    created=self._number,
                )
            )

    def end_job(self, key: str) -> None:
        """A job is done and taken away."""
        for task in [task.key for task in self.tasks.values() if task.job == key]:
            self.leaving.pop(task, None)
            self.end(task)
        self.gone = {task: gone for task, gone in self.gone.items() if gone[0].job != key}
        self.engine.apply(Gone(JobSpec, key))

    # --- time -------------------------------------------------------------------------------------------------------

    def cycle(self) -> list[Decision]:
        """A second passes, or another ``pace``: decide, check, carry out."""
        self.now += self.pace
        self.cycles += 1
        if self.book is not None:
            self.book.open()
        decisions = self.engine.cycle(self.now)
        if self.book is not None:
            self.book.close(decisions)
        for decision in decisions:
            if isinstance(decision, Bind | Evict) and self.fails(decision):
                failed = BindFailed if isinstance(decision, Bind) else EvictFailed
                self.engine.apply(failed(decision.task))
            elif isinstance(decision, Bind):
                spec = self.tasks[decision.task]
                self.put(replace(spec, node=decision.node, status=TaskStatus.RUNNING, started=self.now))
            elif isinstance(decision, Evict):
                self.evictions.append((self.cycles, decision))
                self.put(replace(self.tasks[decision.task], status=TaskStatus.RELEASING))
                self.leaving[decision.task] = self.cycles + self.grace
                if self.early():
                    self._replaced.add(decision.task)
                    self._number += 1
                    spec = self.tasks[decision.task]
                    self._make_anew(replace(spec, name=f"{spec.name.split('+')[0]}+{self._number}"))
        for key in [key for key, cycle in self.leaving.items() if cycle <= self.cycles]:
            del self.leaving[key]
            spec = self.tasks[key]
            self.engine.apply(Gone(TaskSpec, key))
            away = self.away() if key not in self._replaced else None
            self._replaced.discard(key)
            if away is None:
                del self.tasks[key]
            elif away:
                self.gone[key] = self.tasks.pop(key), self.cycles + away
            else:
                self._make_anew(spec)
        for spec in [spec for spec, cycle in self.gone.values() if cycle <= self.cycles]:
            del self.gone[spec.key]
            self._make_anew(spec)
        if self.book is not None:
            self.engine.validate()
        return decisions

    def _make_anew(self, spec: TaskSpec) -> None:
        self.put(replace(spec, status=TaskStatus.PENDING, node=None, started=0, created=self.now))

    def settle(self, most: int = 40, quiet: int = 3) -> int:
        """Cycles until nothing was decided for ``quiet`` of them; returns the last that evicted, from here on."""
        first, last, still = self.cycles, 0, 0
        while still < quiet + self.grace and self.cycles - first < most:
            decisions = self.cycle()
            moved = any(isinstance(decision, Bind | Pipeline | Evict) for decision in decisions)
            still = 0 if moved else still + 1
            if any(isinstance(decision, Evict) for decision in decisions):
                last = self.cycles - first
        return last

    # --- what is there ----------------------------------------------------------------------------------------------

    def running(self, job_or_queue: str) -> int:
        """How many tasks of a job, or of a queue, run."""
        return len(self.running_tasks(job_or_queue))

    def running_tasks(self, job_or_queue: str) -> list[str]:
        running = [task for task in self.tasks.values() if task.status is TaskStatus.RUNNING]
        return sorted(task.key for task in running if job_or_queue in (task.job, self.queue_of[task.job or ""]))
