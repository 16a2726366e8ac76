"""What ``pumice plan`` says is what then happens on a live cluster, if nothing else does.

Random queues and jobs come to rest on a random cluster; then a random change is planned, and made with kubectl. The
decision log of the scheduler tells which tasks it evicted; the pods tell which jobs run. Each plan is made twice: from
the log and from the objects of the cluster. Objects do not show what a scheduler remembers (the order of starts within
a second, whose turn it was), so that plans from objects are judged where the scheduler has just started: before every
second change, and where jobs are not let in, whose pods a log does not know. So every change is judged by one source
at least; plans from the other one are counted only.

The scheduler stands still while kubectl makes the change: kubectl writes one object after the other, and a scheduler
that saw one of two would do what belongs to neither state.
``tests/plan/test_plans_come_true.py`` tries changes on a scheduler in the process of the test, which is quicker.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.kubernetes import started
from pumice.audit.certificate import audit
from pumice.decision_log.log_files import log_files
from pumice.decision_log.replay import first_time
from pumice.kube.client.kubeconfig import read_kubeconfig
from pumice.kube.client.sync_client import Client
from pumice.kube.resources import JOBS, POD_GROUPS
from tests.cli.command import pumice_command
from tests.live.test_random_trees import WITHOUT_BRAKES, clear, states
from tests.support.end_to_end import Embedded, Object, World
from tests.support.kubectl import KUBECTL, run
from tests.support.random_changes import NEW_JOB, RandomChange, random_change
from tests.support.random_trees import RandomTree, random_tree

PATIENCE = 90.0
STILL = 1.3
"""Seconds without a decision that count as rest: a cycle runs in each."""
CHANGES = int(os.environ.get("PLANNED_CHANGES", "200"))
FIRST_CHANGE = int(os.environ.get("FIRST_CHANGE", "0"))
ON_ONE_CLUSTER = 10
GROUP = "scheduling.k8s.io/group-name"
CLUSTERS = (
    (1, {"cpu": 17, "memory": "37Gi"}),
    (2, {"cpu": 9, "memory": "18Gi"}),
    (3, {"cpu": 6, "memory": "13Gi"}),
    (4, {"cpu": 5, "memory": "11Gi"}),
    (2, {"cpu": 7, "memory": "40Gi"}),
)

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not there")


def test_plans_of_two_changes_come_true(tmp_path: Path) -> None:
    with ExitStack() as stack:
        trials = Trials(stack, tmp_path, CLUSTERS[1])
        assert [*trials.judge_change(1), *trials.judge_change(4), *trials.audited()] == []


@pytest.mark.long
def test_plans_of_two_hundred_changes_come_true(tmp_path: Path) -> None:
    wrong, moved, ties = [], 0, 0
    for first in range(FIRST_CHANGE, FIRST_CHANGE + CHANGES, ON_ONE_CLUSTER):
        with ExitStack() as stack:
            (place := tmp_path / str(first)).mkdir()
            trials = Trials(stack, place, CLUSTERS[first // ON_ONE_CLUSTER % len(CLUSTERS)])
            for seed in range(first, min(first + ON_ONE_CLUSTER, FIRST_CHANGE + CHANGES)):
                found = trials.judge_change(seed)
                moved, ties = moved + trials.moved, ties + bool(trials.untold)
                print(f"change {seed}: {found or 'as planned'}", *trials.untold, flush=True)
                wrong += found
            wrong += trials.audited()
    print(f"{moved} of {CHANGES} changes evicted or started something")
    print(f"{ties} were not as planned from a source that does not know all that decides")
    if CHANGES >= 100:  # of a few, more may have no effect
        assert moved >= CHANGES // 4, f"only {moved} of {CHANGES} changes did anything"
    assert not wrong, "\n".join(wrong)


class Trials:
    """A cluster with a scheduler that writes a decision log, on which changes are made one after the other."""

    def __init__(self, stack: ExitStack, place: Path, cluster: tuple[int, dict[str, object]]) -> None:
        nodes, capacity = cluster
        self._place, self._log = place, place / "log"
        self._world = World(Embedded(), place, stack).up(nodes, **capacity)
        (place / "scheduler.yaml").write_text(WITHOUT_BRAKES)
        self._life = stack.enter_context(ExitStack())  # of the present scheduler
        self._scheduler = self._start_scheduler()
        self._client = Client(read_kubeconfig(self._world.kubectl.kubeconfig))
        stack.callback(self._client.close)
        self.moved = False  # whether the last change evicted or started anything
        self.untold: list[str] = []  # where the last change differed from the plan by what objects do not show

    def audited(self) -> list[str]:
        """What was not right, by the decision logs of all schedulers."""
        self._life.close()
        return [str(finding) for finding in audit(self._log).findings.kept]

    def _start_scheduler(self) -> subprocess.Popen[bytes]:
        """A scheduler, in the place of the one before if there is one."""
        self._life.close()
        command = [sys.executable, "-m", "pumice", "scheduler", "--kubeconfig", str(self._world.kubectl.kubeconfig)]
        command += ["--config", str(self._place / "scheduler.yaml"), "--metrics-address", ""]
        command += ["--decision-log", str(self._log)]
        files = len(log_files(self._log)) if self._log.exists() else 0
        process = self._life.enter_context(started(self._place / "scheduler.log", command))
        end = time.monotonic() + PATIENCE
        while (
            not self._log.exists() or len(log_files(self._log)) == files or first_time(log_files(self._log)[-1]) is None
        ):
            assert time.monotonic() < end and process.poll() is None, "the scheduler does not start"
            time.sleep(0.1)
        return process

    def judge_change(self, seed: int) -> list[str]:
        """Plan a change and make it, and say what was not as planned."""
        world, tree = self._world, random_tree(seed)
        self._fill(tree)
        is_new = seed % 2 == 1 or self._waits_to_be_let_in()
        if is_new:
            self._scheduler = self._start_scheduler()
            self._rest()
        change = random_change(random.Random(seed), tree, len(world.kubectl.object("nodes")["items"]))
        plans = self._plans(seed, change)
        seen, before = len(decisions(self._log)), self._running()
        refused = self._make(seed, change)
        self._rest()
        after = decisions(self._log)[seen:]
        evicted, now = Counter(one["task"] for one in after if one["does"] == "evict"), self._running()
        self.moved = bool(evicted) or now != before
        wrong: list[str] = []
        self.untold = []
        assert is_new or knows_pods(plans["log"]), f"no plan of change {seed} is judged"
        for source, plan in plans.items():
            found = wrong if (is_new if source == "cluster" else knows_pods(plan)) else self.untold
            about = f"change {seed} ({change.words}) from the {source}"
            if bool(plan["refused"]) != refused:
                wrong.append(f"{about}: {'refused' if refused else 'let in'}, planned {plan['refused']}")
            planned = Counter(one["task"] for one in plan["evicted"])
            if planned != evicted:
                found.append(f"{about}: evicted {sorted(evicted)}, planned {sorted(planned)}")
            expected = before | Counter()
            expected.update({job: one["running"]["after"] - before[job] for job, one in plan["jobs"].items()})
            if +expected != now:
                found.append(f"{about}: {now - expected} more, {expected - now} fewer run")
        self._undo(change, tree)
        clear(world, tree)
        self._rest()
        return wrong

    def _fill(self, tree: RandomTree) -> None:
        """Queues and work, until all that can run does."""
        self._world.apply(*tree.queues)
        self._world.becomes({"Open"}, lambda: states(self._world, tree))
        for work in (tree.first, tree.later):
            self._world.apply(*work)
            self._rest()

    def _plans(self, seed: int, change: RandomChange) -> dict[str, Any]:
        file = self._file(seed)
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": change.objects}))
        options = ["-f", file, "-o", "json"] if change.objects else ["-o", "json"]
        options += [word for name in change.deleted_queues for word in ("--delete", f"queue/{name}")]
        kubeconfig = self._world.kubectl.kubeconfig
        done = {
            "cluster": pumice_command("plan", *options, "--kubeconfig", kubeconfig),
            "log": pumice_command("plan", *options, "--log", self._log),
        }
        for source, one in done.items():
            assert one.returncode in (0, 1, 2), f"change {seed} from the {source}: {one.stdout}{one.stderr}"
            assert one.stdout, f"change {seed} from the {source}: {one.stderr}"
        return {source: json.loads(one.stdout) for source, one in done.items()}

    def _file(self, seed: int) -> Path:
        return self._place / f"change-{seed}.json"

    def _make(self, seed: int, change: RandomChange) -> bool:
        """Make the change; whether a part of it was refused."""
        kubeconfig, refused = self._world.kubectl.kubeconfig, False
        self._scheduler.send_signal(signal.SIGSTOP)
        try:
            if change.objects:
                refused |= run(kubeconfig, "apply", "-f", str(self._file(seed)))[0] != 0
            if change.deleted_queues:
                refused |= run(kubeconfig, "delete", "queue", "--wait=false", *change.deleted_queues)[0] != 0
        finally:
            self._scheduler.send_signal(signal.SIGCONT)
        return refused

    def _undo(self, change: RandomChange, tree: RandomTree) -> None:
        """Take away what is not in the tree."""
        own = {queue["metadata"]["name"] for queue in tree.queues}
        for one in change.objects:
            name = one["metadata"]["name"]
            if one["kind"] == "Node":
                self._world.kubectl("uncordon", name)
            elif one["kind"] == "Queue" and name not in own:
                self._world.kubectl("delete", "queue", name)

    def _rest(self) -> None:
        """Wait until nothing is decided for a while, no pod comes or goes, and every job has its pods."""
        end, seen, since = time.monotonic() + PATIENCE, None, time.monotonic()
        while time.monotonic() < since + STILL:
            pods, count = self._world.pods(), len(decisions(self._log))
            shown = count, sorted((pod["metadata"]["uid"], pod["status"].get("phase")) for pod in pods)
            leaving = any(pod["metadata"].get("deletionTimestamp") for pod in pods)
            if shown != seen or leaving or self._lacks_pods(pods):
                seen, since = shown, time.monotonic()
                assert since < end, "does not come to rest"
            time.sleep(0.1)

    def _lacks_pods(self, pods: list[Object]) -> bool:
        """Whether a controller still has to create the group of a job, or the pods of one that was let in."""
        own = Counter(pod["metadata"]["annotations"].get(GROUP) for pod in pods)
        groups = {
            owner["uid"]: group
            for group in self._client.list(POD_GROUPS.path()).items
            for owner in group["metadata"].get("ownerReferences") or ()
        }
        for job in self._client.list(JOBS.path()).items:
            group = groups.get(job["metadata"]["uid"])
            if group is None:
                return True
            let_in = (group.get("status") or {}).get("phase", "Pending") != "Pending"
            if let_in and own[group["metadata"]["name"]] < sum(role["replicas"] for role in job["spec"]["tasks"]):
                return True
        return False

    def _waits_to_be_let_in(self) -> bool:
        """Whether a job has no pods yet because the scheduler has not let it in."""
        groups = self._client.list(POD_GROUPS.path()).items
        return any((group.get("status") or {}).get("phase", "Pending") == "Pending" for group in groups)

    def _running(self) -> Counter[str]:
        """How many tasks of each job have a node. The job of a change has no group in its plan, only its own name."""
        return Counter(
            re.sub(f"^(default/{NEW_JOB})-.*", r"\1", f"{pod['metadata']['namespace']}/{group}")
            for pod in self._world.pods()
            if (group := pod["metadata"]["annotations"].get(GROUP))
            and pod["spec"].get("nodeName")
            and "deletionTimestamp" not in pod["metadata"]
        )


def knows_pods(plan: Any) -> bool:
    """Whether the pods of all jobs exist already: a log does not know what pods a job would get."""
    return not any("pods are unknown" in note for note in plan["notes"])


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
