"""Whole targets: equal to a slow version written from the rule, and never more than there is."""

from __future__ import annotations

import random
from collections.abc import Hashable
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from kubebase.resource_vector import CPU, MEMORY
from pumice.engine.fairness.fluid_target.targets import set_targets
from pumice.engine.fairness.integer_target.rounding import IntegerTargets, set_integer_targets
from pumice.engine.fairness.integer_target.task_line import line_of
from pumice.engine.fairness.share_tree.equal_jobs import EXACT
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode
from pumice.model.specs import Items, TaskStatus
from tests.oracles.slow_rounding import LineUnit, SlowJob, amounts_of, slow_round
from tests.support.bounded_groves import (
    above_limits,
    bounded_groves,
    claimed_below,
    limit,
    most,
    of_user,
    user_most,
)
from tests.support.groves import GPU, ITEMS, WIDTH, Grove, all_parts, below, groves, path_of

STEPS = 2**30
CHANGES = ["start", "start", "end", "demand", "weight", "tiers", "turn", "capacity", "gang"]
Vector = list[int]

# --- the rule, the slow way (docs/fairness.md, section 3.2) ----------------------------------------------------------


def slow_whole_targets(grove: Grove) -> dict[str, Vector]:
    """What the slow version makes of a grove."""
    jobs = {job.name: SlowJob(path_of(job)[::-1], entitlement(job), line(job, grove)) for job in grove.jobs}
    by_name = {job.name: job for job in grove.jobs}

    def key(node: Hashable, want: Fraction) -> tuple[object, ...]:
        assert isinstance(node, ShareNode)
        served = max((start for job in below(node) for start in job.owed_starts), default=0)
        if isinstance(node, JobNode):
            return node.rank_class, node.before, -round(want * STEPS), node.after, served, node.last_turn, node.rank
        return -round(want * STEPS), served, node.last_turn, node.rank

    def within_limits(name: str, asks: dict[int, int], whole: dict[str, dict[int, int]]) -> bool:
        """Whether one unit more leads to no claim, at any level, and to no user, above a limit."""
        if grove.tree.bounds is None:
            return True
        job = by_name[name]
        now = {other: [whole[other.name].get(j, 0) for j in range(WIDTH)] for other in grove.jobs}
        more = {other: list(vector) for other, vector in now.items()}
        for j, amount in asks.items():
            more[job][j] += amount
            user_limit = user_most(job, j)
            if user_limit is not None and sum(more[other][j] for other in of_user(job)) > user_limit:
                return False
            for node in path_of(job.parent):
                claims = claimed_below(grove, node, j, more)
                if claims > max(most(grove, node, j), claimed_below(grove, node, j, now)):
                    return False
        return True

    units = slow_round(jobs, grove.capacity, key, within_limits)
    return {name: [amounts_of(whole).get(j, 0) for j in range(WIDTH)] for name, whole in units.items()}


def entitlement(job: JobNode) -> dict[int, Fraction]:
    """A target counts in steps of 2^-40 tasks, so that sums are exact."""
    total: dict[int, Fraction] = {}
    for (items, _), tasks in zip(job.demand.pieces, job.targets, strict=True):
        for j, amount in items:
            total[j] = total.get(j, Fraction(0)) + Fraction(round(tasks * 2**40), 2**40) * amount
    return total


def line(job: JobNode, grove: Grove) -> list[LineUnit]:
    """The line of a job, from its tasks one by one: those that run as they started, then those that wait."""
    wanted = [items for items, count in job.demand.parts for _ in range(count)]
    running = []
    for leaf, items, _, _ in grove.running:
        # Of equal tasks no more count as running than there are; a grove may start more than a job asks for.
        if leaf is job and (len(job.demand.parts) > 1 or items in wanted):
            running.append(items)
            if items in wanted:
                wanted.remove(items)
    tasks = [(items, True) for items in running] + [(items, False) for items in wanted]
    units = []
    gang = min(job.gang, len(tasks))
    if gang > 1:
        together: dict[int, int] = {}
        for items, _ in tasks[:gang]:
            for j, amount in items:
                together[j] = together.get(j, 0) + amount
        units.append(LineUnit(together, gang, all(held for _, held in tasks[:gang])))
        tasks = tasks[gang:]
    units += [LineUnit(dict(items), 1, held) for items, held in tasks]
    if job.demand.reserve:
        units.append(LineUnit(dict(job.demand.reserve), 0, False))
    return units


# --- at random -----------------------------------------------------------------------------------------------


@given(groves())
def test_whole_targets_equal_the_slow_version(grove: Grove) -> None:
    set_targets(grove.tree, grove.capacity)
    set_integer_targets(grove.tree, grove.capacity)
    assert {job.name: job.integer_target for job in grove.jobs} == slow_whole_targets(grove)


@given(groves(), st.data())
def test_they_still_do_after_anything_changed(grove: Grove, data: st.DataObject) -> None:
    # Passes below which nothing changed are kept from one rounding to the next; what was kept must not show.
    rounding = IntegerTargets(grove.tree)
    for stamp in range(30, 30 + data.draw(st.integers(2, 8))):
        before = {job: (list(job.integer_target), job.integer_task_counts) for job in grove.jobs}
        set_targets(grove.tree, grove.capacity)
        changed = rounding.run(grove.capacity)
        assert {job.name: job.integer_target for job in grove.jobs} == slow_whole_targets(grove)
        assert set(changed) == {
            job for job in grove.jobs if (job.integer_target, job.integer_task_counts) != before[job]
        }
        job = data.draw(st.sampled_from(grove.jobs))
        match data.draw(st.sampled_from(CHANGES)):
            case "start" if job.demand.parts:
                items = data.draw(st.sampled_from([items for items, _ in job.demand.parts]))
                grove.start(grove.tree, job, items, stamp, data.draw(st.booleans()))
            case "end" if grove.running:
                grove.end(grove.tree, data.draw(st.integers(0, len(grove.running) - 1)))
            case "demand":
                end_all(grove, job)
                grove.ask_for(
                    job, data.draw(all_parts() | st.just([])), floor=data.draw(st.sampled_from([(), ((CPU, 900),)]))
                )
            case "weight":
                data.draw(st.sampled_from(grove.groups)).weight = data.draw(st.sampled_from([1.0, 4.0]))
                grove.tree.reshaped = True
            case "tiers":
                for other in grove.jobs:
                    other.before = (data.draw(st.integers(0, 1)),)
                    grove.tree.moved[other] = None
            case "turn":
                grove.tree.remember_turn(job, stamp)
            case "capacity":
                grove.capacity[:] = [max(1, n + data.draw(st.integers(-300, 300))) for n in grove.capacity]
            case "gang" if job.demand.parts:
                grove.ask_for(job, job.demand.parts, gang=data.draw(st.integers(1, 3)))


def end_all(grove: Grove, job: JobNode) -> None:
    """A job asks for all that it holds: before it asks for something else, its tasks end."""
    for k in reversed(range(len(grove.running))):
        if grove.running[k][0] is job:
            grove.end(grove.tree, k)


def crowded(seed: int) -> Grove:
    """Many jobs that are much alike and hold about what they are entitled to: ties, incumbents, little left over."""
    rng = random.Random(seed)
    grove = Grove([rng.randint(500, 1500), rng.randint(500, 3000), 100, rng.randint(500, 3000)])
    queues = [grove.group(weight=rng.choice([1.0, 1.0, 2.0])) for _ in range(rng.randint(1, 4))]
    queues += [grove.group(queues[0]) for _ in range(rng.choice([0, 0, 2]))]
    homes = [queue for queue in queues if not queue.children]
    kinds = rng.sample(ITEMS, rng.choice([1, 1, 2, 3]))
    tiers = rng.random() < 0.3
    for _ in range(rng.randint(3, 14)):
        parts = [(items, rng.randint(1, 5)) for items in rng.sample(kinds, rng.choice([1, 1, 1, len(kinds)]))]
        total = sum(count for _, count in parts)
        gang = rng.randint(1, total) if rng.random() < 0.3 else 1
        before = (rng.randint(0, 1),) if tiers else ()
        grove.job(rng.choice(homes), parts, gang=gang, before=before)
    set_targets(grove.tree, grove.capacity)
    for job in grove.jobs:
        for _ in range(max(0, int(job.target) + rng.choice([-1, 0, 0, 1, 1, 2]))):
            items = rng.choice(job.demand.parts)[0]
            grove.start(grove.tree, job, items, rng.choice([1, 1, 2, 3]), rng.random() < 0.7)
    for job in rng.sample(grove.jobs, min(2, len(grove.jobs))):
        grove.tree.remember_turn(job, rng.randint(1, 9))
    return grove


@given(st.integers(0, 2**32))
def test_whole_targets_equal_the_slow_version_where_it_is_crowded(seed: int) -> None:
    for grove in map(crowded, range(seed, seed + 4)):
        set_integer_targets(grove.tree, grove.capacity)
        assert {job.name: job.integer_target for job in grove.jobs} == slow_whole_targets(grove)


@given(groves())
def test_whole_targets_fit_together(grove: Grove) -> None:
    set_targets(grove.tree, grove.capacity)
    set_integer_targets(grove.tree, grove.capacity)
    for j in range(WIDTH):
        # A target a millionth below a whole number is that number: so much may be too much.
        slack = 1e-6 * sum(n for job in grove.jobs for items, _ in job.demand.pieces for k, n in items if k == j)
        assert sum(job.integer_target[j] for job in grove.jobs) <= grove.capacity[j] + slack


@given(groves())
def test_nobody_at_any_level_is_short_by_a_unit_that_waits_below(grove: Grove) -> None:
    set_targets(grove.tree, grove.capacity)
    set_integer_targets(grove.tree, grove.capacity)
    assert short_by_a_unit(grove) == []


def short_by_a_unit(grove: Grove) -> list[tuple[str, str, Items]]:
    """Nodes that miss a whole unit that some job below could have, with the job and the unit."""
    return [
        (node.path, job.name, unit)
        for node in grove.groups[1:] + grove.jobs
        for job in below(node)
        for unit in units_left(job)
        if all(amount * EXACT <= node.exact[j] - node.integer_target[j] * EXACT for j, amount in unit)
    ]


def units_left(job: JobNode) -> list[Items]:
    """The units that a job could have next: those it must start together, or any that is left of its line.

    What a job must start together is not passed over: where it exceeds the job's own entitlement, the tasks behind it
    get what is left once it is served. A waiting task leaves to the running ones of its job what they ask for. Pods
    that do not exist yet are no unit that waits.
    """
    left = [run for run, taken in zip(job.line, job.taken, strict=True) if taken < run.number]
    if not left or left[0].tasks > 1 or not entitled_to_gang(job):
        return [run.items for run in left[:1] if run.tasks > 1]
    running: dict[int, int] = {}
    for run, taken in zip(job.line, job.taken, strict=True):
        for j, amount in run.items if run.held else ():
            running[j] = running.get(j, 0) + amount * (run.number - taken)
    return [
        run.items if run.held else tuple((j, amount + running.get(j, 0)) for j, amount in run.items)
        for run in left
        if run.tasks
    ]


def entitled_to_gang(job: JobNode) -> bool:
    """Whether the tasks that a job must start together fit into its own entitlement."""
    gang = [run for run in job.line if run.tasks > 1]
    return all(amount * EXACT <= job.exact[j] for run in gang for j, amount in run.items)


@given(groves())
def test_with_everybody_at_its_whole_target_nothing_moves(grove: Grove) -> None:
    set_targets(grove.tree, grove.capacity)
    for _ in range(3):
        set_integer_targets(grove.tree, grove.capacity)
        whole = {job.name: list(job.integer_target) for job in grove.jobs}
        take_up(grove)
    set_integer_targets(grove.tree, grove.capacity)
    assert {job.name: job.integer_target for job in grove.jobs} == whole


def take_up(grove: Grove) -> None:
    """Everybody comes to hold its whole target, by the tasks of its line."""
    taken = {job: taken_of(job) for job in grove.jobs}
    while grove.running:
        grove.end(grove.tree, 0)
    for stamp, job in enumerate(grove.jobs):
        for items in taken[job]:
            grove.start(grove.tree, job, items, 100 + stamp)


def taken_of(job: JobNode) -> list[Items]:
    """What the tasks of its whole target ask for: found by what they are together."""
    left, found = list(job.integer_target), []
    for (items, count), _ in zip(job.demand.parts, job.targets, strict=False):
        for _ in range(count):
            if all(amount <= left[j] for j, amount in items):
                found.append(items)
                for j, amount in items:
                    left[j] -= amount
    return found


def test_a_limit_over_namespaces_goes_where_most_is_missing() -> None:
    grove = Grove([400, 0, 0, 0])
    queue = grove.group()
    n1, n2 = grove.group(queue, 2, NodeKind.NAMESPACE), grove.group(queue, 1, NodeKind.NAMESPACE)
    queue.user_ceilings = {"ann": [200, 0, 0, 0]}
    grove.job(n2, [(((CPU, 100),), 1)], user="ann")
    grove.job(n1, [(((CPU, 100),), 2)], user="ann")
    grove.job(n1, [(((CPU, 300),), 1)], user="bob")
    grove.job(n2, [(((CPU, 200),), 1)], user="bob")
    set_targets(grove.tree, grove.capacity)
    set_integer_targets(grove.tree, grove.capacity)
    # Her second task in n1, which misses 167, comes before the one in n2, which misses 133.
    assert [job.integer_target[CPU] for job in grove.jobs] == [0, 200, 0, 200]


@given(bounded_groves(), st.data())
def test_whole_targets_within_limits_equal_the_slow_version(grove: Grove, data: st.DataObject) -> None:
    for stamp in range(30, 30 + data.draw(st.integers(1, 3))):
        set_targets(grove.tree, grove.capacity)
        set_integer_targets(grove.tree, grove.capacity)
        slow = slow_whole_targets(grove)
        assert {job.name: job.integer_target for job in grove.jobs} == slow
        job = data.draw(st.sampled_from(grove.jobs))
        match data.draw(st.sampled_from(["limits", "start", "demand"])):
            case "limits":
                limit(grove, data.draw)
            case "start" if job.demand.parts:
                grove.start(grove.tree, job, job.demand.parts[0][0], stamp, data.draw(st.booleans()))
            case "demand":
                end_all(grove, job)
                grove.ask_for(job, data.draw(all_parts()), gang=data.draw(st.integers(1, 3)))


@given(bounded_groves())
def test_whole_targets_are_within_all_limits(grove: Grove) -> None:
    set_targets(grove.tree, grove.capacity)
    set_integer_targets(grove.tree, grove.capacity)
    assert above_limits(grove, {job: job.integer_target for job in grove.jobs}) == []


# --- by hand -------------------------------------------------------------------------------------------------


def hand_made(*capacity: int) -> Grove:
    """Whole units are a thousand, as milli-cpu are, so that there is something to round."""
    return Grove([1000 * amount for amount in capacity])


def rounded(grove: Grove) -> list[Vector]:
    set_targets(grove.tree, grove.capacity)
    set_integer_targets(grove.tree, grove.capacity)
    return [[amount // 1000 for amount in job.integer_target] for job in grove.jobs]


def test_a_hundred_jobs_entitled_to_two_fifths_have_forty_tasks() -> None:
    grove = hand_made(40, 0, 0, 0)
    queue = grove.group()
    for _ in range(100):
        grove.job(queue, [(((CPU, 1000),), 1)])
    whole = rounded(grove)
    assert all(job.target == 0.4 for job in grove.jobs)
    assert sum(vector[CPU] for vector in whole) == 40
    assert [vector[CPU] for vector in whole] == [1] * 40 + [0] * 60  # equals: the oldest


def test_groups_of_many_small_jobs_get_their_part() -> None:
    # 120 cpu, weights 7 : 8: 56 : 64, that is 1.4 and 1.6 a job. One whole task each, 80; the other 40 by what the
    # queues lack: 16 for the first (56 - 40), 24 for the second.
    grove = hand_made(120, 0, 0, 0)
    for weight in (7.0, 8.0):
        queue = grove.group(weight=weight)
        for _ in range(40):
            grove.job(queue, [(((CPU, 1000),), 9)])
    whole = rounded(grove)
    assert [round(job.target, 9) for job in (grove.jobs[0], grove.jobs[-1])] == [1.4, 1.6]
    assert sum(vector[CPU] for vector in whole[:40]) == 56 and sum(vector[CPU] for vector in whole[40:]) == 64


def test_a_gang_gets_all_or_nothing() -> None:
    # Two gangs of 8 entitled to 5 each of 10: neither's 5 is a gang; one of them gets 8, the other nothing.
    grove = hand_made(10, 0, 0, 0)
    for _ in range(2):
        grove.job(grove.group(), [(((CPU, 1000),), 8)], gang=8)
    assert rounded(grove) == [[8, 0, 0, 0], [0, 0, 0, 0]]


def test_gangs_take_turns_by_who_was_served_last_while_owed() -> None:
    grove = hand_made(10, 0, 0, 0)
    for _ in range(2):
        grove.job(grove.group(), [(((CPU, 1000),), 16)], gang=8)
    first, second = grove.jobs
    # The first runs its turn (8 of them, owed), then it ends: only what still runs counts, so for a moment they tie.
    for _ in range(8):
        grove.start(grove.tree, first, ((CPU, 1000),), 5)
    grove.tree.remember_turn(first, 5)
    assert [w[CPU] for w in rounded(grove)] == [8, 0]  # incumbents keep their place
    while grove.running:
        grove.end(grove.tree, 0)
    assert [w[CPU] for w in rounded(grove)] == [0, 8]
    assert second.last_turn == 0


def test_an_incumbent_keeps_what_rounding_could_give_to_either() -> None:
    # 3 cpu, two queues with 1.5 each: one task each, the third to whoever runs two already.
    for holder in (0, 1):
        grove = hand_made(3, 0, 0, 0)
        for _ in range(2):
            grove.job(grove.group(), [(((CPU, 1000),), 5)])
        for stamp in (1, 2):
            grove.start(grove.tree, grove.jobs[holder], ((CPU, 1000),), stamp)
        assert [vector[CPU] for vector in rounded(grove)] == ([2, 1] if holder == 0 else [1, 2])


def test_an_incumbent_whose_group_has_its_part_goes_behind() -> None:
    # 4 cpu; a, b of one queue entitled to 1 each, c of another to 2. a runs 2: it holds more than its whole part, but
    # nothing is missing above it, and nothing is left either.
    grove = hand_made(4, 0, 0, 0)
    one, two = grove.group(), grove.group()
    a, _, _ = [grove.job(queue, [(((CPU, 1000),), 5)]) for queue in (one, one, two)]
    for stamp in (1, 2):
        grove.start(grove.tree, a, ((CPU, 1000),), stamp)
    assert [vector[CPU] for vector in rounded(grove)] == [1, 1, 2]


def test_the_tiers_decide_among_the_jobs_of_a_queue() -> None:
    # 1 cpu for two jobs with half a task each: the younger is more important.
    grove = hand_made(1, 0, 0, 0)
    queue = grove.group()
    grove.job(queue, [(((CPU, 1000),), 1)], before=(0,))
    grove.job(queue, [(((CPU, 1000),), 1)], before=(-5,))
    assert [vector[CPU] for vector in rounded(grove)] == [0, 1]


def test_unlike_tasks_are_served_in_task_order() -> None:
    # Alone with 10 cpu, 10 memory, it asks for 12 tasks of 1 cpu, then 4 of 1 cpu, 1 memory: 10 of the first.
    grove = hand_made(10, 10, 0, 0)
    job = grove.job(grove.group(), [(((CPU, 1000),), 12), (((CPU, 1000), (MEMORY, 1000)), 4)])
    assert rounded(grove) == [[10, 0, 0, 0]]
    assert job.target == 10.0


def test_tasks_that_wait_stay_in_the_order_of_the_demand_whichever_run() -> None:
    # Of cpu, memory, cpu the last runs: next in its line is the first, not the memory.
    grove = hand_made(2, 1, 0, 0)
    job = grove.job(grove.group(), [(((CPU, 1000),), 1), (((MEMORY, 1000),), 1), (((CPU, 1000),), 1)])
    last = job.path_tasks[2]
    last.status = TaskStatus.RUNNING
    assert [(run.items[0][0], run.held) for run in line_of(job)] == [(CPU, True), (CPU, False), (MEMORY, False)]


def test_a_gang_of_unlike_tasks_must_be_inside() -> None:
    # Target 1/2 of (4 tasks of 1 cpu, 2 of 1 gpu): 2 and 1 tasks; a gang of 4 (4 cpu tasks) is not inside.
    grove = hand_made(2, 0, 0, 1)
    grove.job(grove.group(), [(((CPU, 1000),), 4), (((GPU, 1000),), 2)], gang=4)
    assert rounded(grove) == [[0, 0, 0, 0]]


def test_minimum_resources_without_tasks_are_a_unit_of_their_own() -> None:
    # Two PodGroups whose pods do not exist yet ask for 6 of 10 cpu each: 5 each; one of them is entitled to start.
    grove = hand_made(10, 0, 0, 0)
    for _ in range(2):
        grove.job(grove.group(), [], floor=((CPU, 6000),))
    assert rounded(grove) == [[6, 0, 0, 0], [0, 0, 0, 0]]


def test_whole_targets_are_zero_without_jobs_or_capacity() -> None:
    grove = hand_made(0, 0, 0, 0)
    assert rounded(grove) == []
    grove.job(grove.group(), [(((CPU, 1000),), 3)])
    assert rounded(grove) == [[0, 0, 0, 0]]


# --- within limits ---------------------------------------------------------------------------------------------


def whole_cpu(grove: Grove) -> list[int]:
    return [vector[CPU] for vector in rounded(grove)]


def three_alike(grove: Grove) -> tuple[ShareNode, ShareNode]:
    """Two queues; the first has two jobs of 1-cpu tasks, the other one."""
    one, two = grove.group(), grove.group()
    for queue in (one, one, two):
        grove.job(queue, [(((CPU, 1000),), 9)])
    return one, two


def test_rounding_gives_no_unit_beyond_queue_ceiling() -> None:
    # 6 cpu, the first queue may have 3: 1.5 each, so one has 2 and the other 1. At 3.9 the targets are 1.95, 1.95 and
    # 2.1, two cpu are left, and a second unit is missed most below the ceiling; but there is no room for it.
    for ceiling, whole in ((3000, [2, 1, 3]), (3900, [2, 1, 3])):
        grove = hand_made(6, 0, 0, 0)
        one, _ = three_alike(grove)
        one.ceiling = [ceiling, 0, 0, 0]
        assert whole_cpu(grove) == whole
    # The parent's ceiling holds as well: 3 for both queues together, 0.75, 0.75 and 1.5 of them.
    grove = hand_made(6, 0, 0, 0)
    org = grove.group()
    org.ceiling = [3000, 0, 0, 0]
    for queue in (one := grove.group(org), one, grove.group(org)):
        grove.job(queue, [(((CPU, 1000),), 9)])
    assert sum(whole_cpu(grove)) == 3


def test_rounding_gives_no_unit_out_of_sibling_guarantee() -> None:
    # 5 cpu, the second queue is guaranteed 2.5 and has them: 2 tasks and a half. The first has 2.5 for two jobs: one
    # task each, and half a cpu to spare, as the second has. These do not make a whole one, though 1 cpu is left.
    grove = hand_made(5, 0, 0, 0)
    _, two = three_alike(grove)
    two.guarantee = [2500, 0, 0, 0]
    two.ceiling = [2500, 0, 0, 0]
    assert whole_cpu(grove) == [1, 1, 2]
    # Without the ceiling the second may add half a cpu that is nobody's to its own half.
    two.ceiling = None
    assert whole_cpu(grove) == [1, 1, 3]


def test_rounding_gives_no_unit_beyond_user_ceiling() -> None:
    # 6 cpu for one queue, of which ann may have 2.5 for two jobs: one task each is all. Bob has 3.5: 3, and 4 once
    # the last is handed out.
    grove = hand_made(6, 0, 0, 0)
    queue = grove.group()
    queue.user_ceilings = {"ann": [2500, 0, 0, 0]}
    for user in ("ann", "ann", "bob"):
        grove.job(queue, [(((CPU, 1000),), 9)], user=user)
    assert whole_cpu(grove) == [1, 1, 4]


def test_a_target_that_is_whole_by_a_hair_steps_back_at_a_ceiling() -> None:
    # Tasks of 10^9 bytes, 100 bytes missing to four of them: a target of 3.9999999 counts as 4, which is too much for
    # the ceiling. Of two such jobs, 200 bytes short, the younger steps back; when the ceiling is raised, no longer.
    grove = Grove([0, 10**11, 0, 0])
    queue = grove.group()
    for _ in range(2):
        grove.job(queue, [(((MEMORY, 10**9),), 9)])
    for ceiling, whole in ((8 * 10**9 - 200, [4, 3]), (8 * 10**9, [4, 4]), (8 * 10**9 - 200, [4, 3])):
        queue.ceiling = [0, ceiling, 0, 0]
        set_targets(grove.tree, grove.capacity)
        assert [job.target for job in grove.jobs] == [4.0, 4.0]
        set_integer_targets(grove.tree, grove.capacity)
        assert [job.integer_target[MEMORY] // 10**9 for job in grove.jobs] == whole
