"""A whole scheduling cycle, the slow and obvious way: every number is computed again each time it is needed.

``SlowScheduler`` takes the same events as the engine and decides the same: serve the owed, keep room for those that
find none, lend what is left, place what asks for nothing. Written from the rules
(docs/fairness.md, sections 1, 2, 3, 4, 7 and 10).

    slow_cluster    what was described, and what can be read off that: units, demand
    slow_targets    what every job is entitled to
    slow_tree       the share tree and the walk
    slow_nodes      where a task goes
    slow_holds      room that is kept
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from pumice.model.specs import JobSpec, TaskStatus, Vector
from tests.oracles.slow_cluster import Rules, SlowCluster, Tried
from tests.oracles.slow_holds import SlowHolds, Stuck
from tests.oracles.slow_nodes import Needs, Pod, best_node, fits_somewhere, resources
from tests.oracles.slow_targets import Amounts, Wish, add_up, entitled_below, set_targets, set_whole_targets, within
from tests.oracles.slow_tree import Branch, Key, on_grid, plant, walk

__all__ = ["Rules", "SlowScheduler"]

SECOND = 1_000_000
Bind = tuple[str, str]
"""A task and its node."""


@dataclass
class Cycle:
    """What stands during one cycle."""

    now: int
    capacity: Vector
    root: Branch
    lines: dict[str, list[Branch]]  # of every job the branches from the root down to it
    wishes: dict[str, Wish] = field(default_factory=dict)
    kept: list[Needs] = field(default_factory=list)  # room that is kept while the rest is lent
    binds: list[Bind] = field(default_factory=list)


class SlowScheduler(SlowCluster):
    """Decides, given a cluster."""

    def __init__(self, rules: Rules) -> None:
        super().__init__(rules)
        self.holds = SlowHolds(rules.patience * SECOND, rules.hold_limit * SECOND)
        self.kept_out: list[object] = []  # units tried in vain while room was kept

    def cycle(self, now: int) -> list[Bind]:
        """Decide; returns the binds in order."""
        grew = self.room_grew or self.nodes_changed
        for unit, tried in list(self.in_vain.items()):
            if grew or (tried.coupled and self.pods_moved) or unit in self.kept_out:
                del self.in_vain[unit]
        self.kept_out = []
        root, lines = plant(self.queues, self.quotas, self.jobs, namespaces=self.rules.namespaces)
        cycle = Cycle(now, self.capacity(), root, lines)
        if self.rules.hierarchy:
            for key, line in lines.items():
                cycle.wishes[key] = self.wish(self.jobs[key], self.takes_work(line), cycle.capacity)
            set_targets(root, cycle.wishes, cycle.capacity)
            self.forget_turns(lines)
            set_whole_targets(lines, cycle.wishes, cycle.capacity, self.turns)
        changed, self.nodes_changed, self.room_grew, self.pods_moved = self.nodes_changed, False, False, False
        self.serve(cycle, lending=False)
        if self.rules.hierarchy and self.rules.patience >= 0:
            self.hold(cycle, changed)
        self.serve(cycle, lending=True)
        self.backfill(cycle)
        return cycle.binds

    # --- allocate -----------------------------------------------------------------------------------------------------

    def serve(self, cycle: Cycle, *, lending: bool) -> None:
        """Place units, whoever's turn it is, until nobody is left (or, before lending, nobody who is owed)."""
        while (turn := self.pick(cycle)) is not None:
            unit, owed = turn
            if not owed and not lending:
                return
            stamp = self.next_stamp(cycle)
            placed = self.place(unit, cycle, stamp, owed=owed)
            if len(placed) == len(unit):
                self.keep(placed, stamp, cycle)
                if owed:
                    self.remember_turn(unit, cycle)
            else:
                shapes = [self.shape(pod.spec) for pod in unit]
                short = shapes[len(placed)]
                coupled = any(self.coupled(pod.spec) for pod in unit)
                self.in_vain[self.unit_key(unit)] = Tried(coupled, short, shapes[: len(placed)].count(short))
                if cycle.kept:
                    self.kept_out.append(self.unit_key(unit))

    def remember_turn(self, unit: Sequence[Pod], cycle: Cycle) -> None:
        """The job and every queue above had their turn, whether or not the unit still runs later."""
        line = cycle.lines[str(unit[0].spec.job)]
        for depth, branch in enumerate(line, start=1):
            if branch.kind != 1:  # a namespace has no turns
                self.turns[tuple(above.name for above in line[:depth])] = self.stamp

    def forget_turns(self, lines: Mapping[str, list[Branch]]) -> None:
        """Jobs that are gone, or moved, leave nothing behind."""
        here = {tuple(branch.name for branch in line) for line in lines.values()}
        self.turns = {path: turn for path, turn in self.turns.items() if "/" not in path[-1] or path in here}

    def next_stamp(self, cycle: Cycle) -> int:
        """A start time for the next unit that starts, never twice the same."""
        return max(cycle.now, self.stamp + 1)

    def keep(self, binds: list[Bind], stamp: int, cycle: Cycle) -> None:
        """What was placed stays."""
        cycle.binds += binds
        self.stamp = stamp
        self.pods_moved = True

    def place(self, unit: Sequence[Pod], cycle: Cycle, stamp: int, *, owed: bool) -> list[Bind]:
        """Put every task of a unit on the best node for it, or none; returns those that found one."""
        binds: list[Bind] = []
        for pod in unit:
            nodes, pods = list(self.nodes.values()), list(self.pods.values())
            node = best_node(pod.spec, nodes, pods, self.rules.nodes, cycle.kept)
            if node is None:
                for other in unit:
                    other.status, other.node, other.started = TaskStatus.PENDING, None, 0
                break
            pod.status, pod.node, pod.started, pod.owed = TaskStatus.BINDING, node, stamp, owed
            binds.append((pod.spec.key, node))
        return binds

    def pick(self, cycle: Cycle) -> tuple[list[Pod], bool] | None:
        """Whose turn it is: the unit, and whether it is owed. None: nobody can start anything."""
        offers = {key: unit for key in cycle.lines if (unit := self.offer(key, cycle)) and self.open(unit, cycle)}
        owed = {key for key, unit in offers.items() if self.owed(key, unit, cycle)}
        candidates = [cycle.lines[key][-1] for key in (owed or offers)]
        if not candidates:
            return None

        def key(branch: Branch, below: list[Branch]) -> Key:
            if not self.rules.hierarchy:
                return self.flat_key(branch, below, cycle.capacity)
            asked = {j for leaf in below for j in self.asks(offers[leaf.name])}
            held, due = self.held(branch), entitled_below(branch, cycle.wishes)
            lack = {j: due.get(j, Fraction(0)) - held.get(j, 0) for j in asked}
            # The owed by what is missing of their own part; when room is lent, by what is missing of the cluster.
            scale = {j: due.get(j, 0) if owed else cycle.capacity[j] or 1 for j in asked}
            want = max(lack[j] / scale[j] if scale[j] else Fraction(0) for j in asked)
            return (self.branch_tiers(branch), -on_grid(want), self.latest(branch), branch.rank)

        name = walk(cycle.root, candidates, key).name
        return offers[name], name in owed

    def offer(self, key: str, cycle: Cycle) -> list[Pod] | None:
        """What a job would start next: of unlike tasks the first that is open and owed, else open, else owed."""
        job = self.jobs[key]
        if not self.takes_work(cycle.lines[key]) or not self.valid(job):
            return None
        if self.starts_together(job):
            gang = self.gang_to_start(job, cycle)
            return gang if self.asks(gang) else None  # backfill serves those that ask for nothing
        units = self.single_tasks(job)
        fitting = [unit for unit in units if self.open(unit, cycle)]
        owed = [unit for unit in units if self.owed(key, unit, cycle)]
        return next(iter([*(unit for unit in fitting if unit in owed), *fitting, *owed, *units]), None)

    def gang_to_start(self, job: JobSpec, cycle: Cycle) -> list[Pod]:
        """The first tasks for which the empty cluster has room, or others where these find no place now."""
        most = self.slots_if_empty(self.waiting(job.key))
        first = self.gang_of(job, most, cycle.capacity) or self.gang_of(job, None, cycle.capacity)
        unit = first
        while unit and not self.open(unit, cycle):
            before = dict(most)
            tried = self.in_vain.get(self.unit_key(unit))
            if tried is not None:
                most[tried.short] = tried.placed
            for pod in unit:
                if not self.may_fit(pod, cycle):
                    most[self.shape(pod.spec)] = 0
            if most == before:
                return first
            unit = self.gang_of(job, most, cycle.capacity)
        return unit or first

    def open(self, unit: Sequence[Pod], cycle: Cycle) -> bool:
        """Whether a unit can be placed now, as far as is known."""
        return self.unit_key(unit) not in self.in_vain and all(self.may_fit(pod, cycle) for pod in unit)

    def may_fit(self, pod: Pod, cycle: Cycle) -> bool:
        """Whether a task may find a place now. Where other pods have a say, only a try tells, if any node would do."""
        if self.coupled(pod.spec):
            return self.possible(pod.spec)
        nodes, pods = list(self.nodes.values()), list(self.pods.values())
        return fits_somewhere(pod.spec, nodes, pods, self.rules.nodes, cycle.kept)

    def owed(self, key: str, unit: Sequence[Pod], cycle: Cycle) -> bool:
        """Whether the unit stays within the job's whole target on every resource it asks for.

        Without a gang, it must also be one of the tasks of the whole target: as many of its kind may run as are in it.
        """
        if not self.rules.hierarchy:
            return True
        wish, held, ask = cycle.wishes[key], self.asks(self.running(key)), self.asks(unit)
        if wish.gang <= 1:
            alike = [pod for pod in self.running(key) if self.asks([pod]) == ask]
            if len(alike) >= wish.whole_tasks.count(ask):
                return False
        return within({j: held.get(j, 0) + amount for j, amount in ask.items()}, wish.whole)

    # --- keys ---------------------------------------------------------------------------------------------------------

    def flat_key(self, branch: Branch, below: list[Branch], capacity: Vector) -> Key:
        """Jobs and namespaces by their share of the cluster; a queue is as good as the best below it."""
        if branch.kind == 0:
            those = [(child, [leaf for leaf in child.jobs() if leaf in below]) for child in branch.children]
            best = min(self.flat_key(child, leaves, capacity) for child, leaves in those if leaves)
            return (*best, branch.rank)  # namespaces of different queues can have the same name
        held = self.held(branch)
        share = max([amount / capacity[j] if capacity[j] else 1.0 for j, amount in held.items()], default=0.0)
        return (self.branch_tiers(branch), on_grid(share / branch.weight), self.latest(branch), branch.rank)

    def branch_tiers(self, branch: Branch) -> tuple[int, ...]:
        """The tiers order jobs, nobody else."""
        return self.tiers(branch.job) if branch.job is not None else ()

    def latest(self, branch: Branch) -> int:
        """When somebody below was last served, of what still runs."""
        return max((pod.started for leaf in branch.jobs() for pod in self.running(leaf.name)), default=0)

    def held(self, branch: Branch) -> Amounts:
        """What the jobs below hold."""
        return add_up([self.asks(self.running(leaf.name)) for leaf in branch.jobs()])

    # --- holds and backfill -------------------------------------------------------------------------------------------

    def hold(self, cycle: Cycle, nodes_changed: bool) -> None:
        """Keep room for owed jobs that find none."""
        stuck = []
        for key, line in cycle.lines.items():
            unit = self.offer(key, cycle)
            if unit and self.owed(key, unit, cycle) and not self.open(unit, cycle):
                last = self.latest(line[-1])
                specs = [pod.spec for pod in unit]
                order = self.tiers(self.jobs[key])
                tasks = Counter(self.unit_key(unit))  # in whatever order
                stuck.append(Stuck(key, tasks, specs, order, line[1].name, last, line[-1].rank))
        self.holds.forget(cycle.lines)
        cycle.kept = self.holds.review(
            stuck,
            list(self.nodes.values()),
            list(self.pods.values()),
            cycle.capacity,
            self.rules.nodes,
            now=cycle.now,
            nodes_changed=nodes_changed,
        )

    def backfill(self, cycle: Cycle) -> None:
        """Tasks that ask for nothing take any place, job by job; those of a gang that has not started none."""
        cycle.kept = []
        line = [(self.tiers(self.jobs[key]), line[-1].rank, key) for key, line in cycle.lines.items()]
        for _, _, key in sorted(line):
            job = self.jobs[key]
            free = [pod for pod in self.waiting(key) if not resources(pod.spec.request)]
            if not free or not self.takes_work(cycle.lines[key]) or not self.valid(job):
                continue
            binds: list[Bind] = []
            stamp = self.next_stamp(cycle)
            for alike in self.by_shape(free):
                for pod in alike:
                    placed = self.place([pod], cycle, stamp, owed=True)
                    if not placed:
                        break
                    binds += placed
            if binds and self.missing(job) <= 0:
                self.keep(binds, stamp, cycle)
            else:
                for pod in free:
                    pod.status, pod.node, pod.started = TaskStatus.PENDING, None, 0

    def by_shape(self, pods: Sequence[Pod]) -> list[list[Pod]]:
        """Pods that are alike together, in the order of the first of each."""
        shapes = list(dict.fromkeys(self.shape(pod.spec) for pod in pods))
        return [[pod for pod in pods if self.shape(pod.spec) == shape] for shape in shapes]
