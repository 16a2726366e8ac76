"""Whole targets: equal to a slow version written from the rule, and never more than there is."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from pumice.fairness.rounding import set_whole_targets
from pumice.fairness.targets import set_targets
from pumice.fairness.tree import JobNode, ShareNode
from pumice.model.objects import Items
from pumice.model.resources import CPU, MEMORY
from tests.support.bounded_groves import above_limits, bounded_groves, claimed_below, limit, most, of_user, user_most
from tests.support.groves import GPU, ITEMS, WIDTH, Grove, all_parts, below, groves, path_of

STEPS = 2**30
CHANGES = ["start", "start", "end", "demand", "weight", "tiers", "turn", "capacity", "gang"]
Vector = list[int]

# --- the rule, the slow way (fairness.md 3, step 1) ----------------------------------------------------------


def slow_whole_targets(grove: Grove) -> dict[JobNode, Vector]:
    """Everything is added up again at every step."""
    jobs, capacity = grove.jobs, grove.capacity
    counts = {job: whole_counts(job) for job in jobs}
    base = {job: whole_vector(job, counts[job]) for job in jobs}
    whole = {job: list(vector) for job, vector in base.items()}
    unit = {job: next_unit(job, counts[job]) for job in jobs}
    incumbent = {job: any(job.held[j] > base[job][j] for j, _ in unit[job]) for job in jobs}
    waiting = [job for job in jobs if unit[job]]

    def missing(node: ShareNode, j: int) -> Fraction:
        """The part of the cluster that the jobs below are entitled to and do not have in whole targets so far."""
        return sum(entitled_to(job, j) - whole[job][j] for job in below(node)) / Fraction(capacity[j])

    def fits(job: JobNode) -> bool:
        """Whether one unit more leads to no claim, at any level, and to no user, above a limit."""
        more = {other: list(vector) for other, vector in whole.items()}
        for j, amount in unit[job]:
            more[job][j] += amount
            user_limit = user_most(job, j)
            if user_limit is not None and sum(more[other][j] for other in of_user(job)) > user_limit:
                return False
            for node in path_of(job.parent):
                claims = claimed_below(grove, node, j, more)
                if claims > max(most(grove, node, j), claimed_below(grove, node, j, whole)):
                    return False
        return True

    def able(takers: list[JobNode], passed_over: Callable[[JobNode], bool]) -> set[JobNode]:
        return {job for job in takers if job in waiting and not passed_over(job) and fits(job)}

    def place(node: ShareNode, takers: set[JobNode]) -> tuple[object, ...]:
        asked = {j for job in below(node) if job in takers for j, _ in unit[job]}
        want = max(round(missing(node, j) * STEPS) for j in asked)
        served = max((start for job in below(node) for start in job.owed_starts), default=0)
        if isinstance(node, JobNode):
            return node.rank_class, not incumbent[node], node.before, -want, node.after, served, node.turn, node.rank
        jobs_here = below(node)
        ahead = any(sum(job.held[j] - whole[job][j] for job in jobs_here) > 0 for j in asked)
        return -want, not ahead, served, node.turn, node.rank

    def first(node: ShareNode, takers: set[JobNode]) -> JobNode:
        if isinstance(node, JobNode):
            return node
        children = [child for child in node.children.values() if takers & set(below(child))]
        return first(min(children, key=lambda child: place(child, takers)), takers)

    def hand_out(takers: list[JobNode], passed_over: Callable[[JobNode], bool]) -> None:
        while here := able(takers, passed_over):
            job = first(grove.tree.root, here)
            waiting.remove(job)
            for j, amount in unit[job]:
                whole[job][j] += amount

    def satisfied(job: JobNode) -> bool:
        return any(all(missing(above, j) <= Fraction(1, STEPS) for j, _ in unit[job]) for above in path_of(job))

    hand_out([job for job in jobs if incumbent[job]], satisfied)
    hand_out(jobs, lambda job: False)
    return whole


def entitled_to(job: JobNode, j: int) -> Fraction:
    """A target counts in steps of 2^-32 tasks, so that sums are exact."""
    return Fraction(round(job.target * 2**32), 2**32) * dict(job.demand.direction).get(j, 0)


def whole_counts(job: JobNode) -> list[int]:
    parts = job.demand.parts
    if job.demand.alike:
        counts = [int(job.target)]
    elif job.target >= 1.0:
        return [count for _, count in parts]
    else:
        counts = [int(job.target * count + 1e-9) for _, count in parts]
    got: dict[int, int] = {}
    for (items, _), count in zip(parts, counts, strict=True):
        for j, amount in items:
            got[j] = got.get(j, 0) + amount * count
    gang_inside = sum(counts) >= job.gang and all(got.get(j, 0) >= n for j, n in job.demand.gang_items)
    return counts if gang_inside else [0] * len(counts)


def whole_vector(job: JobNode, counts: list[int]) -> Vector:
    vector = [0] * WIDTH
    if not job.demand.alike and job.target >= 1.0:
        for j, amount in job.demand.direction:
            vector[j] = amount
        return vector
    for (items, _), count in zip(job.demand.parts, counts, strict=True):
        for j, amount in items:
            vector[j] += amount * count
    return vector


def next_unit(job: JobNode, counts: list[int]) -> Items:
    if not job.demand.parts:
        return job.demand.direction if job.target < 1.0 else ()
    if not any(counts) and job.demand.gang_items:
        return job.demand.gang_items
    return next((items for (items, all_), n in zip(job.demand.parts, counts, strict=True) if n < all_), ())


# --- at random -----------------------------------------------------------------------------------------------


@given(groves())
def test_whole_targets_equal_the_slow_version(grove: Grove) -> None:
    set_targets(grove.tree, grove.capacity)
    set_whole_targets(grove.tree, grove.capacity)
    assert {job.name: job.whole for job in grove.jobs} == _named(slow_whole_targets(grove))


@given(groves(), st.data())
def test_they_still_do_after_anything_changed(grove: Grove, data: st.DataObject) -> None:
    # The whole parts are kept from one rounding to the next; what was kept must not show.
    for stamp in range(30, 30 + data.draw(st.integers(2, 8))):
        before = {job: list(job.whole) for job in grove.jobs}
        set_targets(grove.tree, grove.capacity)
        changed = set_whole_targets(grove.tree, grove.capacity)
        assert {job.name: job.whole for job in grove.jobs} == _named(slow_whole_targets(grove))
        assert set(changed) == {job for job in grove.jobs if job.whole != before[job]}
        job = data.draw(st.sampled_from(grove.jobs))
        match data.draw(st.sampled_from(CHANGES)):
            case "start" if job.demand.parts:
                items = data.draw(st.sampled_from([items for items, _ in job.demand.parts]))
                grove.start(grove.tree, job, items, stamp, data.draw(st.booleans()))
            case "end" if grove.running:
                grove.end(grove.tree, data.draw(st.integers(0, len(grove.running) - 1)))
            case "demand":
                grove.ask_for(
                    job, data.draw(all_parts() | st.just([])), floor=data.draw(st.sampled_from([(), ((CPU, 900),)]))
                )
            case "weight":
                data.draw(st.sampled_from(grove.groups)).weight = data.draw(st.sampled_from([1.0, 4.0]))
            case "tiers":
                for other in grove.jobs:
                    other.before = (data.draw(st.integers(0, 1)),)
            case "turn":
                grove.tree.remember_turn(job, stamp)
            case "capacity":
                grove.capacity[:] = [max(1, n + data.draw(st.integers(-300, 300))) for n in grove.capacity]
            case "gang" if job.demand.parts:
                grove.ask_for(job, job.demand.parts, gang=data.draw(st.integers(1, 3)), floor=job.demand.floor)


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
        entitled = job.target if job.demand.alike else job.target * sum(count for _, count in job.demand.parts)
        for _ in range(max(0, int(entitled) + rng.choice([-1, 0, 0, 1, 1, 2]))):
            items = rng.choice(job.demand.parts)[0]
            grove.start(grove.tree, job, items, rng.choice([1, 1, 2, 3]), rng.random() < 0.7)
    for job in rng.sample(grove.jobs, min(2, len(grove.jobs))):
        grove.tree.remember_turn(job, rng.randint(1, 9))
    return grove


@given(st.integers(0, 2**32))
def test_whole_targets_equal_the_slow_version_where_it_is_crowded(seed: int) -> None:
    for grove in map(crowded, range(seed, seed + 4)):
        set_whole_targets(grove.tree, grove.capacity)
        assert {job.name: job.whole for job in grove.jobs} == _named(slow_whole_targets(grove))


@given(groves())
def test_whole_targets_fit_together(grove: Grove) -> None:
    set_targets(grove.tree, grove.capacity)
    set_whole_targets(grove.tree, grove.capacity)
    for j in range(WIDTH):
        # A target a millionth below a whole number is that number: so much may be too much.
        slack = 1e-6 * sum(n for job in grove.jobs for k, n in job.demand.direction if k == j)
        assert sum(job.whole[j] for job in grove.jobs) <= grove.capacity[j] + slack


@given(groves())
def test_nobody_gets_less_than_the_whole_part_nor_more_than_a_unit_above_it(grove: Grove) -> None:
    set_targets(grove.tree, grove.capacity)
    set_whole_targets(grove.tree, grove.capacity)
    for job in grove.jobs:
        least = whole_vector(job, counts := whole_counts(job))
        most = list(least)
        for j, amount in next_unit(job, counts):
            most[j] += amount
        assert job.whole in (least, most)


@given(groves())
def test_what_could_still_be_handed_out_is_handed_out(grove: Grove) -> None:
    set_targets(grove.tree, grove.capacity)
    set_whole_targets(grove.tree, grove.capacity)
    left = [total - sum(job.whole[j] for job in grove.jobs) for j, total in enumerate(grove.capacity)]
    for job in grove.jobs:
        unit = next_unit(job, counts := whole_counts(job))
        if unit and job.whole == whole_vector(job, counts):
            assert any(amount > left[j] for j, amount in unit), f"{job.name} could have one more unit"


@given(bounded_groves(), st.data())
def test_whole_targets_within_limits_equal_the_slow_version(grove: Grove, data: st.DataObject) -> None:
    for stamp in range(30, 30 + data.draw(st.integers(1, 3))):
        set_targets(grove.tree, grove.capacity)
        set_whole_targets(grove.tree, grove.capacity)
        assert {job.name: job.whole for job in grove.jobs} == _named(slow_whole_targets(grove))
        job = data.draw(st.sampled_from(grove.jobs))
        match data.draw(st.sampled_from(["limits", "start", "demand"])):
            case "limits":
                limit(grove, data.draw)
            case "start" if job.demand.parts:
                grove.start(grove.tree, job, job.demand.parts[0][0], stamp, data.draw(st.booleans()))
            case "demand":
                grove.ask_for(job, data.draw(all_parts()), gang=data.draw(st.integers(1, 3)))


@given(bounded_groves())
def test_whole_targets_are_within_all_limits(grove: Grove) -> None:
    set_targets(grove.tree, grove.capacity)
    set_whole_targets(grove.tree, grove.capacity)
    assert above_limits(grove, {job: job.whole for job in grove.jobs}) == []


def _named(whole: dict[JobNode, Vector]) -> dict[str, Vector]:
    return {job.name: vector for job, vector in whole.items()}


# --- by hand -------------------------------------------------------------------------------------------------


def hand_made(*capacity: int) -> Grove:
    """Whole units are a thousand, as milli-cpu are, so that there is something to round."""
    return Grove([1000 * amount for amount in capacity])


def rounded(grove: Grove) -> list[Vector]:
    set_targets(grove.tree, grove.capacity)
    set_whole_targets(grove.tree, grove.capacity)
    return [[amount // 1000 for amount in job.whole] for job in grove.jobs]


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
    assert [w[CPU] for w in rounded(grove)] == [8, 0]  # incumbents keep their place
    grove.start(grove.tree, second, ((CPU, 1000),), 9, False)  # lent, does not count as a turn
    while grove.running[0][0] is first:
        grove.end(grove.tree, 0)
    assert [w[CPU] for w in rounded(grove)] == [0, 8]


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


def test_unlike_tasks_are_rounded_shape_by_shape() -> None:
    # Alone with 10 cpu, 10 memory, it asks for 12 tasks of 1 cpu and 4 of 1 cpu, 1 memory: 16 cpu; target 10/16.
    # 12 * .625 = 7.5 and 4 * .625 = 2.5: 7 and 2, 9 cpu; the rest, 1 cpu, is one more of the first shape.
    grove = hand_made(10, 10, 0, 0)
    job = grove.job(grove.group(), [(((CPU, 1000),), 12), (((CPU, 1000), (MEMORY, 1000)), 4)])
    assert rounded(grove) == [[10, 2, 0, 0]]
    assert job.target == 0.625


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


def test_nothing_at_all() -> None:
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


def test_no_unit_beyond_a_ceiling() -> None:
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


def test_no_unit_out_of_others_guarantees() -> None:
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


def test_no_unit_beyond_a_users_ceiling() -> None:
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
        set_whole_targets(grove.tree, grove.capacity)
        assert [job.whole[MEMORY] // 10**9 for job in grove.jobs] == whole
