"""Every committed taking, on random clusters with arrivals and completions, is held against the rules.

See docs/fairness.md, section 9.

The ``Book`` of the shell replays each cycle: nobody goes without the preemptor's unit getting its whole claim, and its
start later; no victim could have stayed; minimums, whole targets and guarantees hold; what is missing falls with every
reclaim; nodes are never over capacity. Here: that it comes to rest when arrivals stop, under every order, and that
nobody takes back what was just taken from him. Every test also asks that something was taken at all: under ``capacity``
that needs queues that deserve something.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.engine.decisions import Bind, Evict, Pipeline
from pumice.engine.plugins.builtin import BUILT_IN
from pumice.model.specs import JobSpec, TaskStatus
from tests.support.examples import fewer_examples
from tests.support.restless import EVERYTHING, Restless, Taste
from tests.support.taking import Shell, taking_engine

ORDERS = ["steer", "paper", "flat", *(name for name in ("proportion", "capacity") if name in BUILT_IN)]
every_order = pytest.mark.parametrize("rule", ORDERS)
seeds = st.integers(0, 2**32 - 1)
few = fewer_examples(3, at_least=20)  # an example is a whole life, under five orders; not every one has a reclaim

AT_REST = {"steer": 10}
"""After how many cycles the last eviction may be; the orders that go by keys give way one task at a time."""
BY_KEYS = 40


def taken_on_seeds(check: Callable[[int], Shell]) -> int:
    """Whatever ``check`` asserts on a seed holds on a few of them; returns how many reclaims there were in all."""
    taken = 0

    @few
    @given(seed=seeds)
    def each(seed: int) -> None:
        nonlocal taken
        taken += reclaims(check(seed))

    each()
    return taken


def reclaims(shell: Shell) -> int:
    return sum(decision.action == "reclaim" for _, decision in shell.evictions)


def restless(
    seed: int, rule: str, taste: Taste | None = None, last: Sequence[str] = ()
) -> tuple[Shell, Restless, random.Random]:
    chance = random.Random(seed)
    actions = chance.choice(["allocate, backfill, reclaim, preempt", "allocate, reclaim", "reclaim, allocate"])
    namespaces = chance.random() < 0.3
    arguments: dict[str, object] = {"drf.patience": chance.choice([-1, 0, 5])} if rule == "steer" else {}
    if rule == "capacity":
        arguments = {"ancestorReclaimLevel": chance.choice([0, 0, 1])}
    engine = taking_engine(rule, last=last, actions=actions, namespaces=namespaces, arguments=arguments)
    shell = Shell(engine, grace=chance.choice([0, 0, 1, 2]))
    taste = taste or replace(EVERYTHING, deserved=rule == "capacity")
    return shell, Restless(shell, seed, taste), chance


def live(shell: Shell, world: Restless, chance: random.Random, cycles: int) -> None:
    """Jobs come, tasks end, jobs go."""
    for _ in range(cycles):
        if chance.random() < 0.4:
            world.job()
        running = [task.key for task in shell.tasks.values() if task.status is TaskStatus.RUNNING]
        for key in sorted(running):
            if chance.random() < 0.05:
                shell.end(key, again=chance.random() < 0.5)
        if world.jobs and chance.random() < 0.05:
            shell.end_job(world.jobs.pop(chance.randrange(len(world.jobs))))
        shell.cycle()


def comes_to_rest(seed: int, rule: str, cycles: int) -> tuple[int, Shell]:
    """A life, then no more arrivals; returns after how many cycles the last eviction was."""
    shell, world, chance = restless(seed, rule)
    live(shell, world, chance, cycles)
    last = shell.settle(100)
    assert not shell.engine.context.pipelined.tasks, "somebody waits on a node for ever"
    assert last <= AT_REST.get(rule, BY_KEYS), f"seed {seed}: evictions until {last} cycles after the last arrival"
    return last, shell


@every_order
def test_evictions_stop_when_arrivals_stop(rule: str) -> None:
    assert taken_on_seeds(lambda seed: comes_to_rest(seed, rule, 15)[1])


@pytest.mark.long
@every_order
def test_evictions_stop_after_thousands_of_cycles(rule: str) -> None:
    found = sorted(comes_to_rest(seed, rule, 100)[0] for seed in range(60))
    print(f"\n{rule}: last eviction after the last arrival, in cycles: median {found[30]}, most {found[-1]}")


# --- ping-pong ------------------------------------------------------------------------------------------------------


def loses_below(decision: Evict, evicted: list[Evict]) -> bool:
    """Whether the preemptor of an eviction also takes from below its own side: an own sibling comes before a cousin."""
    assert decision.sides is not None
    own_side = decision.sides.preemptor
    return any(
        other.preemptor == decision.preemptor
        and other.sides is not None
        and f"{other.sides.ancestor}/".startswith(f"{own_side}/")
        for other in evicted
    )


@pytest.mark.parametrize("rule", [rule for rule in ORDERS if rule != "steer"])
def test_after_a_reclaim_the_opposite_one_is_illegal(rule: str) -> None:
    # Where the two paths part, the preemptor's side came first and does not come after the victim's now, everybody who
    # went counted out: so the victim's side does not come first, which it would have to, to take back. By proportion
    # the preemptor's side may come after it now: it is within what it deserves, so nobody may take from it, and the
    # victim's share is larger than the preemptor's was, unless a job went whole. Its own share grows, unless others
    # below it went too.
    def check(seed: int) -> Shell:
        shell, world, _ = restless(seed, rule)
        shell.engine.context.tracing = True
        for _ in range(10):
            if len(world.jobs) < 10:
                world.job()
            evicted = [decision for decision in shell.cycle() if isinstance(decision, Evict)]
            for decision in evicted:
                if decision.action == "reclaim":
                    assert decision.sides is not None
                    before, after = decision.sides.before, decision.sides.after
                    assert before[0] < before[1], decision
                    if rule == "proportion":
                        went_whole = not shell.engine.state.jobs[decision.job].running
                        assert before[0] < after[1] or (went_whole and after[0] <= 1 + 1e-6), decision
                        assert before[0] <= after[0] or loses_below(decision, evicted), decision
                    else:
                        assert after[0] <= after[1] + 1e-6, decision
        return shell

    assert taken_on_seeds(check)


def deserving_side(shell: Shell, side: str, chance: random.Random) -> str:
    """A queue below up to two others, each of which deserves much of some resources, at the top often of none."""
    name = "root"
    left = list(shell.engine.state.capacity)
    for level in range(chance.choice([1, 2, 2, 3])):
        named = [j for j in (0, 1) if chance.random() < (0.6 if level else 0.3)]
        for j in named:
            left[j] = chance.randint((left[j] + 1) // 2, left[j])
        parent, name = name, f"{side}{level}"
        shell.child(name, parent, deserved=tuple((j, left[j]) for j in named))
    return name


def weighty_side(shell: Shell, side: str, chance: random.Random) -> str:
    """A queue anywhere in a tree of up to six levels; returns its name."""
    depth = chance.randint(0, 5)
    path = "/".join(["root", side, *(f"{side}{level}" for level in range(depth))])
    shell.queue(path, "/".join(["1", *(str(chance.choice([1, 1, 2, 3])) for _ in range(depth + 1))]))
    return path.removeprefix("root/").replace("/", "-")


@every_order
def test_two_jobs_never_take_from_each_other_in_turn(rule: str) -> None:
    # Two queues, a job each, nodes of any size: once one has taken from the other and nothing happens from outside,
    # the other takes nothing back. (A third could make that right.)
    side_of = deserving_side if rule == "capacity" else weighty_side

    def check(seed: int) -> Shell:
        chance = random.Random(seed)
        shell = Shell(taking_engine(rule, arguments={"drf.patience": -1} if rule == "steer" else {}))
        shell.grace = seed % 3
        for i in range(chance.randint(1, 4)):
            shell.node(f"n{i}", chance.choice([2, 4, 8]), chance.choice([4, 8]))
        for side in "ab":
            queue = side_of(shell, side, chance)
            requests = chance.choice([[(1, 1)], [(2, 1)], [(1, 3)], [(1, 0), (0, 2)], [(4, 4)], [(0, 1)]])
            gang = chance.choice([1, 1, 2])
            tasks = 24 if rule == "capacity" else chance.randint(gang, 12)  # enough to borrow all that others deserve
            shell.job(queue, requests * tasks, gang)
            shell.cycle()
        took: set[tuple[str, str]] = set()
        for _ in range(12):
            now = {(decision.preemptor, decision.job) for decision in shell.cycle() if isinstance(decision, Evict)}
            back = {(preemptor, victim) for preemptor, victim in now if (victim, preemptor) in took}
            assert not back, f"{back}: taken back"
            took |= now
        return shell

    assert taken_on_seeds(check)


# --- starts ---------------------------------------------------------------------------------------------------------


@every_order
def test_every_claim_becomes_a_start(rule: str) -> None:
    # Nothing happens from outside, so whoever waits on a node starts there as soon as the victims are gone.
    def check(seed: int) -> Shell:
        shell, world, _ = restless(seed, rule)
        waiting: dict[str, int] = {}
        for _ in range(12):
            if len(world.jobs) < 8:
                world.job()
            for decision in shell.cycle():
                if isinstance(decision, Bind):
                    waiting.pop(decision.task, None)
                elif isinstance(decision, Pipeline):
                    waiting[decision.task] = shell.cycles
            late = {key: since for key, since in waiting.items() if shell.cycles - since > shell.grace + 1}
            assert not late, f"claimed, not started: {late}"
        return shell

    assert taken_on_seeds(check)


@few
@given(seed=seeds)
def test_who_is_gone_while_others_wait_for_his_room_leaves_no_trace(seed: int) -> None:
    # Takers, victims and nodes vanish while the victims are being released.
    shell, world, chance = restless(seed, "steer")
    shell.grace = 3
    for _ in range(20):
        if chance.random() < 0.5:
            world.job()
        shell.cycle()
        for task in list(shell.engine.context.pipelined.tasks):
            if chance.random() < 0.3 and task.key in shell.tasks:
                shell.end(task.key)
        for key in list(shell.leaving):
            if chance.random() < 0.2:
                del shell.leaving[key]
                shell.end(key)
        if world.jobs and chance.random() < 0.2:
            shell.end_job(world.jobs.pop(chance.randrange(len(world.jobs))))
        shell.engine.validate()
    shell.settle(60)
    assert not shell.engine.context.pipelined.tasks
    assert all(isinstance(job.spec, JobSpec) for job in shell.engine.state.jobs.values())


# --- limits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "last"), [("steer", ("capacity",)), ("capacity", ()), ("proportion", ())])
def test_guarantees_and_capabilities_hold(rule: str, last: Sequence[str]) -> None:
    # The book looks at every queue that lost something, and at what every queue holds after each cycle.
    def check(seed: int) -> Shell:
        shell, world, chance = restless(seed, rule, Taste(bounds=True, depth=3), last)
        live(shell, world, chance, 15)
        assert shell.settle(100) <= AT_REST.get(rule, BY_KEYS)
        return shell

    assert taken_on_seeds(check)
