"""The book of evictions: follows the decisions of each cycle and holds every committed taking against the rules.

See docs/fairness.md, section 9.

It knows what goes in, what is decided and the whole targets; the accounts it makes itself. A ``Commit`` is one taking:
who went, and where the units of those who took start. The book hears of each as it is made: only then is it known who
had a place, as what was given earlier in a cycle may be withdrawn later in it, without a word.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from kubebase.resource_vector import PODS
from pumice.engine.decisions import Bind, Decision, Evict, Pipeline
from pumice.engine.engine import Engine
from pumice.engine.fairness.orders.target_order import TargetOrder
from pumice.engine.fairness.preemption_rules.rules import lowest_common_ancestor
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.engine.transaction import Eviction
from pumice.model.specs import Items, JobSpec, TaskStatus

Request = Sequence[int]


@dataclass
class Seen:
    """A task as the book sees it."""

    key: str
    job: str
    request: tuple[int, ...]
    node: str | None
    status: TaskStatus


@dataclass
class Commit:
    """One committed taking: who went, and where the units of those who took start."""

    preemptor: str
    action: str
    victims: list[str] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)  # they lost what they were given in the same cycle
    claims: list[tuple[str, str]] = field(default_factory=list)


class Book:
    """Replays what is decided, and checks it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.steer = isinstance(engine.order, TargetOrder)
        self.limited = any(entry.name in ("proportion", "capacity") for entry in engine.policy.config.plugins)
        self.tasks: dict[str, Seen] = {}
        self.watcher: Callable[[Commit], None] | None = None  # told of every taking before it is entered
        self.owed = 0.0  # before the last cycle's actions: dominant parts of the cluster, summed over jobs
        self.running_before: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._said: list[Decision] | None = None  # in this cycle, with what was withdrawn; None: nothing was taken
        self._entered = 0  # so much of it is in the book
        self._opened = False
        self._held_before: dict[str, list[int]] = {}
        self._exchanges = engine.context.reclaimers.exchanged
        engine.context.eviction_audit = self._took

    def open(self) -> None:
        """Before a cycle: who is where."""
        self.tasks = {
            task.key: Seen(
                task.key,
                task.job.key,
                task.spec.request,
                task.node.name if task.node is not None and task.status.has_node else None,
                task.status,
            )
            for task in self.engine.state.tasks.values()
            if task.job is not None
        }
        self._said, self._entered, self._opened = None, 0, True
        self._held_before = {name: list(self.held_by(name)) for name in self.engine.state.queues}

    def close(self, decisions: list[Decision]) -> None:
        """After it: what is told outside is what was done, and all in all it is right."""
        if self._said is None:
            self._begin(decisions)
        self._opened = False
        self._enter((self._said or decisions)[self._entered :])
        for decision in decisions:
            if isinstance(decision, Bind):  # a claim on room that is free already is a start
                seen = self.tasks[decision.task]
                assert seen.node == decision.node, f"{decision} of a task that is {seen}"
                seen.status = TaskStatus.RUNNING
        for name, free in self.room(releasing_is_free=False, pipelined=False).items():
            assert all(amount >= 0 for amount in free), f"node {name} is over capacity by {free}"
        self._minimums_hold(decisions)
        for queue in self.engine.state.queues.values():
            held = self.held_by(queue.name)
            for j, most in queue.capability if self.limited else ():  # it may have been lowered meanwhile
                least = max(most, self._held_before[queue.name][j])
                assert held[j] <= least, f"queue {queue.name} holds {held}, its capability is {queue.capability}"
        reclaimers = self.engine.context.reclaimers
        assert reclaimers.exchanged == self._exchanges, "an exchange for which nobody made way"
        if self.steer:
            assert reclaimers.without_gain == 0, "by its own count a reclaim brought nothing"

    def _took(self, departures: list[Eviction]) -> None:
        """In the middle of a cycle: somebody has just taken; what was decided last is what came of it."""
        if self._opened:
            self._write_down(departures)

    def _write_down(self, departures: list[Eviction]) -> None:
        if self._said is None:
            self._begin(self.engine.context.decided.decisions)
            self._said = self.engine.context.decided.decisions
        taking = Commit("", "claim", withdrawn=[gone.task.key for gone in departures if gone.was_bound_this_cycle])
        before: list[Decision] = []
        for decision in self._said[self._entered :]:
            if isinstance(decision, Evict):
                if not taking.victims:  # a transaction tells its evictions first: these claims were an earlier one's
                    earlier, taking.claims, taking.preemptor = taking.claims, [], ""
                    self._claim(earlier)
                taking.preemptor, taking.action = decision.preemptor, decision.action
                taking.victims.append(decision.task)
            elif isinstance(decision, Pipeline):
                taking.preemptor = taking.preemptor or decision.job
                taking.claims.append((decision.task, decision.node))
            else:
                before.append(decision)
        self._entered = len(self._said)
        if taking.claims and not taking.victims:
            self._keep_last_unit(taking)
        gone = [departure.task.key for departure in departures if not departure.was_bound_this_cycle]
        assert taking.victims == gone, f"{taking}: said to go {taking.victims}, went {gone}"
        self._enter(before)
        self._commit(taking)

    def _begin(self, decisions: list[Decision]) -> None:
        """Before the first decision is entered: what the cycle began with."""
        self._send_back(decisions)
        self.owed = self.dominant_missing()
        self.running_before = self._running()

    def _enter(self, decisions: Iterable[Decision]) -> None:
        """Plain starts."""
        for decision in decisions:
            if isinstance(decision, Bind):
                seen = self.tasks[decision.task]
                assert seen.status in (TaskStatus.PENDING, TaskStatus.PIPELINED), f"{decision} of a task that is {seen}"
                if seen.status is TaskStatus.PIPELINED:
                    assert seen.node == decision.node, f"{seen} waited on another node than {decision.node}"
                seen.node, seen.status = decision.node, TaskStatus.RUNNING

    def _send_back(self, decisions: list[Decision]) -> None:
        """Pipelined tasks that wait in vain are pending again; no decision says so."""
        claimed = {decision.task for decision in decisions if isinstance(decision, Pipeline)}
        bound = {(decision.task, decision.node) for decision in decisions if isinstance(decision, Bind)}
        for seen in self.tasks.values():
            if seen.status is TaskStatus.PIPELINED and (seen.key, seen.node) not in bound:
                now = self.engine.state.tasks[seen.key].status
                if now is not TaskStatus.PIPELINED or seen.key in claimed:
                    seen.node, seen.status = None, TaskStatus.PENDING

    def _commit(self, commit: Commit) -> None:
        before = self.missing()
        if self.watcher is not None and commit.victims:
            self.watcher(commit)
        self._claim(commit.claims)
        for keys, then in ((commit.victims, TaskStatus.RELEASING), (commit.withdrawn, TaskStatus.PENDING)):
            for key in keys:
                seen = self.tasks[key]
                assert seen.status is TaskStatus.RUNNING, f"{commit} lets a task go that is {seen}"
                seen.status = then
        if commit.victims or commit.withdrawn:
            self._check(commit, before)
        for key in commit.withdrawn:
            self.tasks[key].node = None

    def _keep_last_unit(self, taking: Commit) -> None:
        """Only binds were withdrawn, for the unit that was decided last: the claims before it needed no victims."""
        taking.preemptor = self.tasks[taking.claims[-1][0]].job
        size = max(1, self.spec(taking.preemptor).min_member)
        last = [i for i, (key, _) in enumerate(taking.claims) if self.tasks[key].job == taking.preemptor][-size:]
        self._claim([claim for i, claim in enumerate(taking.claims) if i not in last])
        taking.claims = [taking.claims[i] for i in last]

    def _claim(self, claims: list[tuple[str, str]]) -> None:
        for key, node in claims:
            seen = self.tasks[key]
            assert seen.status is TaskStatus.PENDING, f"{key} is to wait on {node}, but is {seen}"
            seen.node, seen.status = node, TaskStatus.PIPELINED

    def _check(self, commit: Commit, before: float) -> None:
        assert commit.claims, f"{commit}: evictions without a start"
        for job in {self.tasks[key].job for key, _ in commit.claims}:
            assert self._started(job), f"{commit}: the unit of {job} is not whole"
        future = self.room(releasing_is_free=True, pipelined=True)
        for _, node in commit.claims:
            assert all(amount >= 0 for amount in future[node]), f"{commit}: no room on {node}: {future[node]}"
        for group in self.groups(commit):
            assert self._needed(commit, group, future), f"{commit}: {group} could have stayed"
        self._other_queues(commit)
        self._guarantees_kept(commit)
        exchanges = self.engine.context.reclaimers.exchanged
        if exchanges > self._exchanges:
            self._exchanges = exchanges
            self._exchanged(commit)
            if not self._was_owed(commit):
                self._targets_kept(commit)
        elif self.steer:
            self._targets_kept(commit)
            if commit.action == "reclaim":
                after = self.missing()
                assert after < before - 1e-12, f"{commit}: what is missing did not fall: {before} -> {after}"

    # --- rules ------------------------------------------------------------------------------------------------------

    def _tasks_of(self, job: str) -> list[Seen]:
        return [seen for seen in self.tasks.values() if seen.job == job]

    def _started(self, job_key: str) -> bool:
        mine = self._tasks_of(job_key)
        held = sum(seen.status.held for seen in mine)
        unfinished = sum(seen.status.unfinished for seen in mine)
        done = sum(seen.status is TaskStatus.SUCCEEDED for seen in mine)
        return held >= min(self.spec(job_key).min_member - done, unfinished)

    def _needed(self, commit: Commit, group: list[str], future: dict[str, list[int]]) -> bool:
        """Whether with these victims back (of a gang that went whole: all of it) the units would not have places."""
        if self.limited or self._coupled(commit):
            return True  # where queues have limits a victim may stand in the way of those, not of room
        nodes = {node: list(future[node]) for node in dict.fromkeys(node for _, node in commit.claims)}
        for key in group:
            seen = self.tasks[key]
            if seen.node in nodes:
                _add(nodes[seen.node], seen.request, -1)
        return not self._stays(commit, nodes)

    def _stays(self, commit: Commit, room: dict[str, list[int]]) -> bool:
        """Whether the unit has its places in what is left around it: as they are, or in any other arrangement.

        Claims of other jobs were made before, or for the room that the victims left; they stay where they are.
        """
        if all(amount >= 0 for left in room.values() for amount in left):
            return True
        if any(task.spec.constraints.coupled for task in self.engine.state.tasks.values()):
            return False  # pods that keep away from one another: other arrangements may be worse than they look
        own = [(key, node) for key, node in commit.claims if self.tasks[key].job == commit.preemptor]
        for key, node in own:
            _add(room[node], self.tasks[key].request, 1)
        return fits([self.tasks[key].request for key, _ in own], room)

    def _coupled(self, commit: Commit) -> bool:
        return any(self.engine.state.tasks[key].spec.constraints.coupled for key, _ in commit.claims)

    def groups(self, commit: Commit) -> list[list[str]]:
        """Victims that go or stay together: tasks one by one, jobs that went whole as one."""
        by_job: dict[str, list[str]] = {}
        for key in (*commit.victims, *commit.withdrawn):
            by_job.setdefault(self.tasks[key].job, []).append(key)
        found: list[list[str]] = []
        for job, keys in by_job.items():
            whole = not any(seen.status.held for seen in self.tasks.values() if seen.job == job)
            found += [keys] if whole and self.spec(job).min_member > 1 else [[key] for key in keys]
        return found

    def _other_queues(self, commit: Commit) -> None:
        """Preempt stays in its queue. Reclaim may take from its own as well, but not from that one alone."""
        ours = self.queue(commit.preemptor)
        inside = [self.queue(self.tasks[key].job) == ours for key in (*commit.victims, *commit.withdrawn)]
        wrong = not all(inside[: len(commit.victims)]) if commit.action == "preempt" else all(inside)
        assert not commit.victims or not wrong, f"{commit}: the victims are in the wrong queues"

    def _targets_kept(self, commit: Commit) -> None:
        gone = [*commit.victims, *commit.withdrawn]
        for job in {self.tasks[key].job for key in gone}:
            leaf = self.engine.tree.jobs[job]
            if leaf.integer_task_counts is not None:
                self._tasks_kept(commit, leaf)
                continue
            held = self.held(job)
            asked = {j for key in gone if self.tasks[key].job == job for j in _asks(self.tasks[key].request)}
            for j in asked:
                assert held[j] >= leaf.integer_target[j], (
                    f"{commit}: {job} holds {held}, its whole target is {leaf.integer_target}"
                )

    def _exchanged(self, commit: Commit) -> None:
        """The preemptor's side was short of all that it gains, and no group around a victim is left as short."""
        capacity, jobs = self.engine.state.capacity, self.engine.tree.jobs
        for key in commit.victims:
            victim, lost = jobs[self.tasks[key].job], _asks(self.tasks[key].request)
            level, ours, _ = lowest_common_ancestor(jobs[commit.preemptor], victim)
            gains, held = self._gains(commit, ours), self._held_below(ours)
            assert gains, f"{commit}: {ours.path} gains nothing"
            for j in gains:
                assert ours.due[j] - held[j] > -1e-6 * capacity[j], f"{commit}: {ours.path} was not short of its gain"
            gain = max(amount / capacity[j] for j, amount in gains.items())
            group = victim.parent
            while group is not None and group is not level:
                held = self._held_below(group)
                short = max((group.due[j] - held[j]) / capacity[j] for j in lost)
                assert short < gain, f"{commit}: {group.path} is left with {held}, entitled to {group.due}"
                group = group.parent

    def _was_owed(self, commit: Commit) -> bool:
        """Whether the preemptor was owed anything that it could start: its unit or, once its gang runs, any task."""
        leaf, claimed = self.engine.tree.jobs[commit.preemptor], [key for key, _ in commit.claims]
        mine = self._tasks_of(commit.preemptor)
        held = [seen.request for seen in mine if seen.status.held and seen.key not in claimed]
        units = [[self.tasks[key].request for key in claimed if self.tasks[key].job == commit.preemptor]]
        if len(units[0]) == 1:
            units += [[seen.request] for seen in mine if seen.status is TaskStatus.PENDING]
        return any(_is_within(leaf, held, unit) for unit in units)

    def _gains(self, commit: Commit, group: ShareNode) -> dict[int, int]:
        """What a group with the preemptor below it gains: the unit, less the victims below the group."""
        inside = {leaf.name for leaf in group.walk() if isinstance(leaf, JobNode)}
        gains: Counter[int] = Counter()
        for key, _ in commit.claims:
            gains.update(dict(_items(self.tasks[key].request)))
        for key in (*commit.victims, *commit.withdrawn):
            if self.tasks[key].job in inside:
                gains.subtract(dict(_items(self.tasks[key].request)))
        return {j: amount for j, amount in gains.items() if amount > 0}

    def _held_below(self, group: ShareNode) -> list[int]:
        jobs = [leaf.name for leaf in group.walk() if isinstance(leaf, JobNode)]
        return [sum(amounts) for amounts in zip(*map(self.held, jobs), strict=True)]

    def _tasks_kept(self, commit: Commit, leaf: JobNode) -> None:
        """Of unlike tasks: of every kind that was lost as many are left as are in the whole target."""
        left = self._kinds(leaf.name)
        for key in (*commit.victims, *commit.withdrawn):
            kind = _items(self.tasks[key].request)
            if self.tasks[key].job == leaf.name:
                assert left[kind] >= leaf.integer_task_counts.get(kind, 0), (
                    f"{commit}: {left}, but {leaf.integer_task_counts}"
                )

    def _kinds(self, job: str) -> Counter[Items]:
        """How many tasks of a job run, by what they ask for."""
        return Counter(_items(seen.request) for seen in self.tasks.values() if seen.job == job and seen.status.held)

    def _guarantees_kept(self, commit: Commit) -> None:
        for name in {self.queue(self.tasks[key].job) for key in commit.victims if self.limited}:
            queue, held = self.engine.state.queues[name], self.held_by(name)
            lost = [self.tasks[key] for key in commit.victims if self.queue(self.tasks[key].job) == name]
            for j, least in queue.guarantee if commit.action == "reclaim" else ():
                if any(seen.request[j] for seen in lost):
                    assert held[j] >= least, f"{commit}: queue {name} is left with {held}, guaranteed {queue.guarantee}"
            if commit.action == "reclaim":
                assert queue.reclaimable, f"{commit}: queue {name} is not reclaimable"

    def _minimums_hold(self, decisions: list[Decision]) -> None:
        evictions = [decision for decision in decisions if isinstance(decision, Evict)]
        own = {evict.job for evict in evictions if evict.job == evict.preemptor}  # they replace tasks of theirs
        running = self._running({each.task for each in decisions if isinstance(each, Pipeline) and each.job in own})
        for job in {evict.job for evict in evictions}:
            spec, left = self.spec(job), running[job]
            runs = any(seen.status.held and seen.status is not TaskStatus.PIPELINED for seen in self._tasks_of(job))
            if not runs or self.running_before[job].total() < spec.min_member:
                continue  # it went whole, and may have been given places again, or was not whole before
            assert left.total() >= spec.min_member, f"{job} is left with {left.total()} of at least {spec.min_member}"
            for role, least in spec.min_task_member.items():
                if self.running_before[job][role] >= least:
                    assert left[role] >= least, f"{job} is left with {left[role]} of role {role}, at least {least}"

    # --- sums -------------------------------------------------------------------------------------------------------

    def _running(self, starting: Container[str] = ()) -> defaultdict[str, Counter[str]]:
        """How many tasks of each job, by role, run or have succeeded; of those that wait on a node, only these."""
        found: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for seen in self.tasks.values():
            runs = seen.status.held and seen.status is not TaskStatus.PIPELINED
            if runs or seen.status is TaskStatus.SUCCEEDED or seen.key in starting:
                found[seen.job][self.engine.state.tasks[seen.key].spec.role] += 1
        return found

    def queue(self, job: str) -> str:
        return self.spec(job).queue

    def spec(self, job: str) -> JobSpec:
        spec = self.engine.state.jobs[job].spec
        assert spec is not None
        return spec

    def held(self, job: str) -> list[int]:
        """What a job holds by the book."""
        total = [0] * self.engine.tree.width
        for seen in self.tasks.values():
            if seen.job == job and seen.status.held:
                _add(total, seen.request, 1)
        return total

    def held_by(self, queue: str) -> list[int]:
        """What the jobs of a leaf queue hold by the book."""
        total = [0] * self.engine.tree.width
        for seen in self.tasks.values():
            if seen.status.held and self.queue(seen.job) == queue:
                _add(total, seen.request, 1)
        return total

    def missing(self) -> float:
        """The sum over all jobs of what is missing to their whole targets, as parts of the cluster."""
        return sum(sum(parts) for parts in self._missing_parts())

    def dominant_missing(self) -> float:
        """The same, of each job only the largest part."""
        return sum(max(parts, default=0.0) for parts in self._missing_parts())

    def dominant(self, key: str) -> float:
        """The largest part of the cluster that a task asks for."""
        capacity = self.engine.state.capacity
        return max((self.tasks[key].request[j] / capacity[j] for j in _asks(self.tasks[key].request)), default=0.0)

    def _missing_parts(self) -> Iterator[list[float]]:
        if not self.steer:
            return
        capacity = self.engine.state.capacity
        total = {job: [0] * self.engine.tree.width for job in self.engine.tree.jobs}
        for seen in self.tasks.values():
            if seen.status.held and seen.job in total:
                _add(total[seen.job], seen.request, 1)
        for key, leaf in self.engine.tree.jobs.items():
            counted = [j for j in range(len(capacity)) if j != PODS and capacity[j] > 0]
            if leaf.integer_task_counts is not None:
                missing = Counter(leaf.integer_task_counts) - self._kinds(key)
                yield [sum(n * dict(kind).get(j, 0) for kind, n in missing.items()) / capacity[j] for j in counted]
                continue
            yield [max(0, leaf.integer_target[j] - total[key][j]) / capacity[j] for j in counted]

    def room(self, *, releasing_is_free: bool, pipelined: bool) -> dict[str, list[int]]:
        """What is left on every node."""
        left = {name: list(node.allocatable) for name, node in self.engine.state.nodes.items()}
        for seen in self.tasks.values():
            takes = seen.status.on_node and not (releasing_is_free and seen.status is TaskStatus.RELEASING)
            takes = takes or (pipelined and seen.status is TaskStatus.PIPELINED)
            if takes and seen.node is not None:
                _add(left[seen.node], seen.request, -1)
        return left


def fits(requests: Sequence[Request], room: Mapping[str, Sequence[int]], most: int = 5000) -> bool:
    """Whether these find places in this room, tried in every way (beyond ``most`` ways: first fit, largest first)."""
    if not requests:
        return True
    if len(room) ** len(requests) > most:
        left = {name: list(amounts) for name, amounts in room.items()}
        for request in sorted(requests, key=tuple, reverse=True):
            for amounts in left.values():
                if all(amounts[j] >= amount for j, amount in enumerate(request)):
                    _add(amounts, request, -1)
                    break
            else:
                return False
        return True
    for way in product(*([room] * len(requests))):
        left = {name: list(amounts) for name, amounts in room.items()}
        for name, request in zip(way, requests, strict=True):
            _add(left[name], request, -1)
        if all(amount >= 0 for amounts in left.values() for amount in amounts):
            return True
    return False


def _add(total: list[int], request: Request, sign: int) -> None:
    for j, amount in enumerate(request):
        total[j] += sign * amount


def _items(request: Request) -> Items:
    return tuple((j, request[j]) for j in _asks(request))


def _asks(request: Request) -> list[int]:
    return [j for j, amount in enumerate(request) if amount and j != PODS]


def _is_within(leaf: JobNode, held: Sequence[Request], unit: Sequence[Request]) -> bool:
    """Whether a job that holds this, and starts a unit, stays within its whole target; unlike tasks count by kind."""
    counts = leaf.integer_task_counts
    if counts is not None:
        running = Counter(map(_items, held))
        if any(running[kind] + more > counts.get(kind, 0) for kind, more in Counter(map(_items, unit)).items()):
            return False
    asked = {j for request in unit for j in _asks(request)}
    return all(sum(request[j] for request in (*held, *unit)) <= leaf.integer_target[j] for j in asked)
