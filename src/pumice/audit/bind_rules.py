"""The rules about binds: on a node that exists and has room, within the limits of every queue above, in whole gangs."""

from __future__ import annotations

from collections.abc import Sequence

from pumice.audit.findings import Findings
from pumice.audit.ledger import Ledger
from pumice.audit.ledger_entries import asks
from pumice.audit.log_lines import Decision
from pumice.audit.policy import AuditedPolicy
from pumice.model.queue_tree import Path
from pumice.model.specs import QueueState


class BindRules:
    """Checks the binds of a cycle. ``checked`` counts them."""

    def __init__(self, ledger: Ledger, policy: AuditedPolicy, findings: Findings) -> None:
        self._ledger = ledger
        self._policy = policy
        self._findings = findings
        self.checked = 0
        self.gangs = 0
        self.ahead = 0  # gangs of which tasks started while others waited for victims to leave
        self._claimed: dict[str, int] = {}  # pipelined tasks, and the world in which they were given their place

    def before(self, decision: Decision) -> None:
        """Check a bind before it is entered: the task waits, and the node is there."""
        task = self._ledger.tasks.get(decision.task)
        if decision.does == "pipeline":
            self._claimed[decision.task] = self._ledger.world
        if decision.does != "bind":
            return
        self.checked += 1
        if task is None:
            self._findings.add("bind", decision, "there is no such task")
        elif task.status.on_node:
            self._findings.add(
                "bind", decision, f"the task is on node {task.node} already ({task.status.name.lower()})"
            )
        elif not task.status.unfinished:
            self._findings.add("bind", decision, f"the task has ended ({task.status.name.lower()})")
        self._open(decision)
        node = self._ledger.nodes.get(decision.node)
        if node is None or node.spec is None:
            self._findings.add("bind", decision, "there is no such node")
        elif not node.spec.ready:
            self._findings.add("bind", decision, "the node is not ready")

    def _open(self, decision: Decision) -> None:
        path = self._ledger.path_of(decision.job) or ()
        for depth in range(1, len(path) + 1):
            queue = self._ledger.queues.get(self._ledger.accounts.queue_at(path[:depth]) or "")
            if queue is not None and queue.state is not QueueState.OPEN:
                self._findings.add("bind", decision, f"queue {queue.name} is {queue.state.value.lower()}")

    def after(self, decisions: Sequence[Decision]) -> None:
        """Check the binds of a cycle when all of its decisions are entered."""
        binds = [each for each in decisions if each.does == "bind" and each.task in self._ledger.tasks]
        self._capacity(binds)
        if self._policy.limited:
            self._limits(binds)
        if self._policy.gangs:
            self._gangs(binds)
        for bind in binds:
            self._claimed.pop(bind.task, None)

    def _capacity(self, binds: Sequence[Decision]) -> None:
        last = {bind.node: bind for bind in binds}
        asked: dict[str, set[int]] = {}
        for bind in binds:
            request = self._ledger.tasks[bind.task].spec.request
            asked.setdefault(bind.node, set()).update(j for j, amount in enumerate(request) if amount)
        for name, bind in last.items():
            node = self._ledger.nodes[name]
            if node.spec is None:
                continue
            left = node.room(leaving=False, claims=False)
            for j in sorted(asked[name]):
                if left[j] < 0:
                    offers = node.spec.allocatable[j] if j < len(node.spec.allocatable) else 0
                    used, most = self._ledger.amount_text(j, offers - left[j]), self._ledger.amount_text(j, offers)
                    message = f"the tasks on node {name} ask for {used} together, and it has {most}"
                    self._findings.add("capacity of nodes", bind, message)

    def _limits(self, binds: Sequence[Decision]) -> None:
        by_queue: dict[Path, tuple[Decision, set[int]]] = {}
        for bind in binds:
            path = self._ledger.path_of(bind.job)
            moved = self._claimed.get(bind.task, self._ledger.world) != self._ledger.world
            if path is not None and not moved:  # its place was given before limits or nodes changed
                _, asked = by_queue.setdefault(path, (bind, set()))
                asked.update(asks(self._ledger.tasks[bind.task].spec.request))
        accounts, doubtful = self._ledger.accounts, self._ledger.doubtful_amounts() if by_queue else {}
        for path, (bind, asked) in by_queue.items():
            found = accounts.beyond_limit(path, sorted(asked), doubtful)
            if found is not None:
                queue, j, amount, limit = found
                told = f"queue {queue[-1]} ({'/'.join(queue)})" if len(queue) > 1 else "the cluster"
                self._findings.add(
                    "limits of queues",
                    bind,
                    f"{told} holds or reserves {self._ledger.amount_text(j, amount)}, and may have "
                    f"{self._ledger.amount_text(j, limit)} (its capability, less the guarantees of other queues)",
                )

    def _gangs(self, binds: Sequence[Decision]) -> None:
        last = {bind.job: bind for bind in binds}
        for key, bind in last.items():
            job = self._ledger.jobs.get(key)
            if job is None or job.spec is None:
                continue
            self.gangs += job.spec.minimum > 1
            started = job.started
            if not started or not job.lacks(started):
                continue
            # The others may have places that victims are leaving.
            lack = job.lacks([task for task in job.tasks.values() if task.status.held])
            if lack:
                self._findings.add("whole gangs", bind, f"job {key} runs with {lack}")
            else:
                self.ahead += 1
