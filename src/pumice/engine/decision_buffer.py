"""The decisions of the current cycle. Every decision is recorded here and nowhere else.

The buffer also remembers the latest conditions of jobs and queues, so that a condition is reported once and not again
in every cycle.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pumice.engine.decisions import Bind, Condition, Decision, Enqueue, Evict, Pipeline, QueueCondition

if TYPE_CHECKING:
    from pumice.engine.fairness.orders.serving_order import PickStep
    from pumice.engine.state.task import Task


class DecisionBuffer:
    """Collects the decisions of a cycle."""

    __slots__ = (
        "_carded",
        "_messages",
        "_withdrawn",
        "bound",
        "conditions",
        "decisions",
        "pipelined",
        "queue_conditions",
    )

    def __init__(self) -> None:
        self.decisions: list[Decision] = []  #: the decisions of this cycle, in order
        self.bound: dict[Task, Bind] = {}  #: exactly the tasks bound in this cycle whose bind was not withdrawn
        self.pipelined: dict[Task, None] = {}  #: tasks pipelined in this cycle
        self.conditions: dict[str, str] = {}  #: the latest message about each job, by job key
        self.queue_conditions: dict[str, str] = {}  #: the latest message about each queue, by "queue/type"
        self._carded: dict[Task, None] = {}  #: tasks bound in this cycle that use cards of their node
        self._messages: dict[str, str] = {}  #: those of this cycle: many jobs of a backlog wait for the same reason
        self._withdrawn: list[Bind] = []  #: binds of this cycle whose task was evicted again in this cycle

    def begin_cycle(self) -> None:
        """Start with an empty list of decisions."""
        self.decisions = []
        self.bound.clear()
        self._carded.clear()
        self._messages.clear()
        self.pipelined.clear()

    def enqueue(self, job: str) -> None:
        """Record that a job may create its pods."""
        self.decisions.append(Enqueue(job))

    def bind(self, task: Task, node: str, path: tuple[PickStep, ...] = ()) -> None:
        """Record that a task starts on a node."""
        assert task.job is not None
        bind = self.bound[task] = Bind(task.key, node, task.job.key, path, task.cards)
        if task.cards:
            self._carded[task] = None
        self.decisions.append(bind)

    def pipeline(self, task: Task, node: str, path: tuple[PickStep, ...] = ()) -> None:
        """Record that a task starts on a node as soon as its victims have left."""
        assert task.job is not None
        self.pipelined[task] = None
        self.decisions.append(Pipeline(task.key, node, task.job.key, path))

    def start_pipelined(self, task: Task, node: str) -> None:
        """Record that a pipelined task starts. If it was pipelined in this cycle, the bind replaces that decision."""
        assert task.job is not None
        bind = Bind(task.key, node, task.job.key, cards=task.cards)
        if task in self.pipelined:
            key = task.key
            at = next(i for i, d in enumerate(self.decisions) if isinstance(d, Pipeline) and d.task == key)
            self.decisions[at] = bind
        else:
            self.decisions.append(bind)

    def evict(self, decision: Evict) -> None:
        """Record an eviction."""
        self.decisions.append(decision)

    def withdraw_bind(self, task: Task) -> None:
        """Withdraw the bind of a task that another task displaced in the same cycle."""
        self._withdrawn.append(self.bound.pop(task))

    def drop_withdrawn(self) -> None:
        """After the actions: remove the withdrawn binds, and correct the cards of tasks that were moved to others."""
        moved = {id(self.bound[task]): task.cards for task in self._carded if task in self.bound}
        if moved:
            self.decisions = [
                replace(decision, cards=moved[id(decision)])
                if isinstance(decision, Bind) and id(decision) in moved
                else decision
                for decision in self.decisions
            ]
        if self._withdrawn:
            dropped = {id(bind) for bind in self._withdrawn}  # by identity: the task may have been bound again
            self.decisions = [decision for decision in self.decisions if id(decision) not in dropped]
            self._withdrawn.clear()

    def condition(self, job: str, kind: str, reason: str, message: str) -> None:
        """Report a condition of a job, even if its message is the same as before."""
        self.decisions.append(Condition(job, kind, reason, message))

    def condition_once(self, job: str, reason: str, message: str) -> None:
        """Report that a job is Unschedulable, unless that is already the latest message about it."""
        if self.conditions.get(job) != message:
            message = self.conditions[job] = self._messages.setdefault(message, message)
            self.condition(job, "Unschedulable", reason, message)

    def set_queue_conditions(self, messages: dict[str, str]) -> None:
        """Report the changes among the conditions of all queues; ``messages`` by "queue/type"."""
        before = self.queue_conditions
        if before != messages:
            for name in sorted(before.keys() | messages.keys()):
                if before.get(name) != messages.get(name):
                    queue, _, kind = name.rpartition("/")
                    self.decisions.append(QueueCondition(queue, messages.get(name, ""), kind))
            self.queue_conditions = messages
