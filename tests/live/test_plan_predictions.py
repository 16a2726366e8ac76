"""What ``pumice plan`` says is what then happens on a live cluster, if nothing else does.

Random queues and jobs come to rest; then a random change is planned, and made. The decision log of the scheduler tells
which tasks it evicted; the pods tell which jobs run. A plan is made from the objects of the cluster and from the log.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.kubernetes import started
from tests.cli.command import pumice_command
from tests.live.test_random_trees import WITHOUT_BRAKES, clear, states
from tests.support.end_to_end import Object, World
from tests.support.kubectl import run
from tests.support.random_trees import CAPACITY, RandomTree, random_tree

PATIENCE = 90.0
STILL = 1.3
"""Seconds without a decision that count as rest: a cycle runs in each."""
GROUP = "scheduling.k8s.io/group-name"


def test_plans_of_three_changes_come_true(world: World, tmp_path: Path) -> None:
    wrong = [each for seed in range(3) for each in judge_change(start(world, tmp_path, seed == 0), tmp_path, seed)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
def test_plans_of_two_hundred_changes_come_true(world: World, tmp_path: Path) -> None:
    wrong = []
    for seed in range(200):
        found = judge_change(start(world, tmp_path, seed == 0), tmp_path, seed)
        print(f"change {seed}: {found or 'as planned'}", flush=True)
        wrong += found
    assert not wrong, "\n".join(wrong)


def start(world: World, place: Path, first: bool) -> World:
    """The cluster and a scheduler that writes a decision log; both are there for all changes."""
    if first:
        world.up(**CAPACITY)
        (place / "scheduler.yaml").write_text(WITHOUT_BRAKES)
        command = [sys.executable, "-m", "pumice", "scheduler", "--kubeconfig", str(world.kubectl.kubeconfig)]
        command += ["--config", str(place / "scheduler.yaml"), "--metrics-address", ""]
        command += ["--decision-log", str(place / "log")]
        world._stack.enter_context(started(place / "scheduler.log", command))
    return world


def judge_change(world: World, place: Path, seed: int) -> list[str]:
    """Make a change, and say what was not as planned."""
    rng, tree = random.Random(seed), random_tree(seed)
    world.apply(*tree.queues)
    world.becomes({"Open"}, lambda: states(world, tree))
    world.apply(*tree.first)
    rest(world, place)
    world.apply(*tree.later)
    rest(world, place)
    change = place / f"change-{seed}.json"
    change.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": random_change(rng, tree)}))
    kubeconfig = world.kubectl.kubeconfig
    plans = {
        "cluster": pumice_command("plan", "-f", change, "-o", "json", "--kubeconfig", kubeconfig),
        "log": pumice_command("plan", "-f", change, "-o", "json", "--log", place / "log"),
    }
    seen, before = len(decisions(place / "log")), running(world)
    status, said = run(kubeconfig, "apply", "-f", str(change))
    assert status == 0, said
    rest(world, place, least=len(plans))
    after = decisions(place / "log")[seen:]
    evicted = Counter(one["task"] for one in after if one["does"] == "evict")
    wrong = []
    for source, done in plans.items():
        assert done.returncode in (0, 1), f"change {seed} from the {source}: {done.stdout}{done.stderr}"
        plan = json.loads(done.stdout)
        planned = Counter(one["task"] for one in plan["evicted"])
        if planned != evicted:
            wrong.append(f"change {seed} from the {source}: evicted {sorted(evicted)}, planned {sorted(planned)}")
        expected = before | Counter()
        expected.update({job: one["running"]["after"] - before[job] for job, one in plan["jobs"].items()})
        expected = +expected
        now = running(world)
        if expected != now:
            wrong.append(f"change {seed} from the {source}: {now - expected} more, {expected - now} fewer run")
    clear(world, tree)
    rest(world, place)
    return wrong


def random_change(rng: random.Random, tree: RandomTree) -> list[Object]:
    """One or two queues with other weights; in trees with spec fields also with another part of them."""
    changed = []
    for queue in rng.sample(tree.queues, min(len(tree.queues), rng.randint(1, 2))):
        copy: Object = json.loads(json.dumps(queue))
        annotations = copy["metadata"].get("annotations")
        if annotations:
            weights = annotations["volcano.sh/hierarchy-weights"].split("/")
            weights[-1] = str(rng.randint(1, 6))
            annotations["volcano.sh/hierarchy-weights"] = "/".join(weights)
        elif copy["spec"].get("hierarchy") and rng.random() < 0.5:
            for entry in copy["spec"]["hierarchy"]:
                entry["parameters"] = [{"name": "weight", "value": rng.randint(1, 6)}]
        else:
            copy["spec"]["weight"] = rng.randint(1, 6)
            if rng.random() < 0.2:
                copy["spec"]["reclaimable"] = False
        changed.append(copy)
    return changed


def rest(world: World, place: Path, least: int = 0) -> None:
    """Wait until the scheduler has decided nothing for a while, and no pod leaves."""
    end, seen, since = time.monotonic() + PATIENCE, -1, time.monotonic()
    while time.monotonic() < since + STILL:
        count = len(decisions(place / "log"))
        leaving = any(pod["metadata"].get("deletionTimestamp") for pod in world.pods())
        if count != seen or leaving:
            seen, since = count, time.monotonic()
            assert since < end, "does not come to rest"
        time.sleep(0.1)


def running(world: World) -> Counter[str]:
    """How many tasks of each job have a node."""
    return Counter(
        f"{pod['metadata']['namespace']}/{pod['metadata']['annotations'][GROUP]}"
        for pod in world.pods()
        if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]
    )


def decisions(log: Path) -> list[dict[str, Any]]:
    """All binds and evictions in a decision log so far."""
    return [one for one in _decisions(log) if one["does"] in ("bind", "evict")]


def _decisions(log: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(log.glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            if line.startswith(b'{"is":"cycle"'):
                try:
                    yield from msgspec.json.decode(line)["decisions"]
                except msgspec.DecodeError:
                    return  # the last line is being written
