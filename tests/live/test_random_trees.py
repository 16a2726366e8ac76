"""Random trees of queues on a live cluster, judged by what kubectl shows once nothing changes any more.

Some queues fill the only node, the others wake up later. With one node fragmentation plays no role, and taking back has
no cooldown, so that nobody has to wait for minutes. What must hold, in the words of a user:

    no queue and no inner node is short of its entitlement by a waiting task that would fit;
    nothing is evicted while nothing happens;
    no node holds more than it has.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

import pytest

from pumice.engine.config.scheduler_config import DEFAULT_CONFIG
from tests.support.end_to_end import Object, World
from tests.support.kubectl_view import View
from tests.support.random_trees import CAPACITY, RandomTree, random_tree

WITHOUT_BRAKES = f"""\
{DEFAULT_CONFIG}configurations:
- name: reclaim
  arguments: {{reclaim.patience: 0, reclaim.minRuntime: 0}}
"""
PATIENCE = 90.0
STILL = 2.0
"""Seconds without any change that count as rest: several cycles of the scheduler and periods of its statuses."""


def test_queue_shortfall_stays_below_two_tasks_on_one_tree(world: World) -> None:
    # Which tasks start first depends on when they are seen, and a small task behind a larger one that found no room may
    # be left out of a whole target: so far a group was short by 1.12 tasks at most.
    judge(world, range(3, 4), most=2)


@pytest.mark.long
def test_queue_shortfall_stays_below_one_task_on_twenty_trees(world: World) -> None:
    judge(world, range(20), most=1)


def judge(world: World, seeds: Iterable[int], *, most: int) -> None:
    """Let trees come to rest, one after another on the same cluster, and collect what is wrong with each."""
    world.up(**CAPACITY)
    world.scheduler(WITHOUT_BRAKES)
    wrong, shares = [], Counter[tuple[bool, int]]()
    for tree in map(random_tree, seeds):
        evicted = evictions(world)
        view = come_to_rest(world, tree)
        shortfalls = view.shortfalls()
        shares.update((each.would_fit, int(10 * each.tasks)) for each in shortfalls)
        problems = [str(each) for each in shortfalls if each.would_fit and each.tasks >= most]
        problems += view.overfull() + view.contradictions() + changes(world, view)
        evicted = evictions(world) - evicted
        print("\n  ".join([f"tree {tree.seed} ({tree.style}): {view.summary()}; {evicted} evictions", *problems]))
        wrong += [f"tree {tree.seed}: {each}" for each in problems]
        wrong += [view.table()] if problems else []
        clear(world, tree)
    for fits, words in ((True, "would fit"), (False, "would not fit")):
        tenths = {tenth: count for (would_fit, tenth), count in sorted(shares.items()) if would_fit is fits}
        print(f"short by tenths of a waiting task that {words}: {tenths}")
    assert not wrong, "\n".join(wrong)


def come_to_rest(world: World, tree: RandomTree) -> View:
    """Fill the cluster, wake the queues that slept, and wait until nothing changes any more."""
    world.apply(*tree.queues)
    world.becomes({"Open"}, lambda: states(world, tree))
    world.apply(*tree.first)
    rest(world)
    world.apply(*tree.later)
    return rest(world)


def states(world: World, tree: RandomTree) -> set[str]:
    found = {each["metadata"]["name"]: each.get("status", {}) for each in world.kubectl.object("queues")["items"]}
    return {found.get(leaf, {}).get("state", "") if "path" in found.get(leaf, {}) else "" for leaf in tree.leaves}


def rest(world: World) -> View:
    """What kubectl shows once it has shown the same for a while."""
    end, view, since = time.monotonic() + PATIENCE, None, 0.0
    while view is None or time.monotonic() < since + STILL:
        now = View.taken(world.kubectl)
        if now != view or now.leaving or now.contradictions():
            view, since = now, time.monotonic()
            assert since < end, f"does not come to rest: {now.leaving} pods leave, {now.contradictions()}"
        time.sleep(0.3)
    return view


def changes(world: World, before: View) -> list[str]:
    """What happens while nobody does anything."""
    evicted = evictions(world)
    time.sleep(STILL)
    after = View.taken(world.kubectl)
    was, now = ({task.name for task in view.tasks if task.runs} for view in (before, after))
    found = [f"{name} {'started' if name in now else 'ended'} while nothing happened" for name in sorted(was ^ now)]
    if more := evictions(world) - evicted:
        found.append(f"{more} evictions while nothing happened")
    return found


def evictions(world: World) -> int:
    return sum(int(event.get("count") or 1) for event in world.kubectl.object("events")["items"] if is_eviction(event))


def is_eviction(event: Object) -> bool:
    return bool(event.get("reason") == "Evict")


def clear(world: World, tree: RandomTree) -> None:
    """Take away a tree and its work."""
    for kind in ("jobs.batch.volcano.sh", "pods", "podgroups"):
        world.kubectl("delete", kind, "--all", "--wait=false")
    world.becomes([], lambda: world.kubectl.object("jobs.batch.volcano.sh,pods,podgroups")["items"])
    world.kubectl(
        "delete", "queues", *(each["metadata"]["name"] for each in tree.queues), "--wait=false", "--ignore-not-found"
    )
    world.becomes(set(), lambda: leftover(world, tree))


def leftover(world: World, tree: RandomTree) -> set[str]:
    names = {each["metadata"]["name"] for each in world.kubectl.object("queues")["items"]}
    return {name for name in names if name.startswith(f"t{tree.seed}-")}
