"""What ``pumice plan`` says is what then happens on a live cluster, if nothing else does.

Random queues and jobs come to rest on a random cluster; then a random change is planned, and made with kubectl. The
decision log of the scheduler tells which tasks it evicted; the pods tell which jobs run. Each plan is made twice: from
the log and from the objects of the cluster. Objects do not show what a scheduler remembers (the order of starts within
a second, whose turn it was), so that plans from objects are judged where the scheduler has just started: before every
second change, and where jobs are not let in, whose pods a log does not know. So every change is judged by one source
at least; plans from the other one are counted only.

A change is not made in one moment. kubectl writes one object after the other, controllers bring a new hierarchy to the
queues one by one, and create the pods of a job that is let in one by one; a scheduler that sees one of two does what
belongs to neither state. So the scheduler stands still until all of it is there.
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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
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
from tests.support.api_servers import pumice_up
from tests.support.end_to_end import Object, World
from tests.support.kubectl import KUBECTL, run
from tests.support.random_changes import NEW_JOB, RandomChange, random_change
from tests.support.random_trees import RandomTree, random_tree

PATIENCE = 90.0
STILL = 1.3
"""Seconds without a decision that count as rest: a cycle runs in each."""
CONTROLLED = 0.4
"""Seconds without a write that count as the end of what controllers do while the scheduler stands still."""
LET_IN = 0.3
"""Seconds in which the scheduler lets in what it lets in at once."""
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


class Apart:
    """``pumice up`` with the API and its nodes only: scheduler and controllers have to stand still at times."""

    scheduler = None

    @contextmanager
    def up(self, count: int, capacity: str, speed: float) -> Iterator[Path]:
        options = ("--nodes", str(count), "--node-capacity", capacity, "--no-ui", "--speed", str(speed))
        with pumice_up(*options) as (_, kubeconfig):
            yield kubeconfig


class Trials:
    """A cluster with a scheduler that writes a decision log, on which changes are made one after the other."""

    def __init__(self, stack: ExitStack, place: Path, cluster: tuple[int, dict[str, object]]) -> None:
        nodes, capacity = cluster
        self._place, self._log = place, place / "log"
        self._world = World(Apart(), place, stack).up(nodes, **capacity)
        controllers = [sys.executable, "-m", "pumice", "controllers", "--metrics-address", ""]
        controllers += ["--kubeconfig", str(self._world.kubectl.kubeconfig)]
        self._controllers = stack.enter_context(started(place / "controllers.log", controllers))
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
        is_new = seed % 2 == 1 or bool(self._waiting_groups())
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
        with standing_still(self._scheduler):
            if change.objects:
                refused |= run(kubeconfig, "apply", "-f", str(self._file(seed)))[0] != 0
            if change.deleted_queues:
                refused |= run(kubeconfig, "delete", "queue", "--wait=false", *change.deleted_queues)[0] != 0
            self._await_controllers()
            waiting = self._waiting_groups()
            if waiting:
                self._controllers.send_signal(signal.SIGSTOP)
        if waiting:
            self._create_pods_together(waiting)
        return refused

    def _await_controllers(self) -> None:
        """Wait until queues and jobs are as their controllers leave them."""
        kinds = "queues,podgroups,jobs.batch.volcano.sh"

        def versions() -> list[tuple[str, str, str]]:
            items = self._world.kubectl.object(kinds)["items"]
            return [(one["kind"], one["metadata"]["name"], one["metadata"]["resourceVersion"]) for one in items]

        wait_for(self._all_have_groups)
        end, seen, since = time.monotonic() + PATIENCE, versions(), time.monotonic()
        while time.monotonic() < since + CONTROLLED:
            if (now := versions()) != seen:
                seen, since = now, time.monotonic()
                assert since < end, "the controllers do not come to rest"

    def _create_pods_together(self, waiting: set[str]) -> None:
        """Let the scheduler let jobs in, and the controllers create all of their pods before it sees one."""
        try:
            end = time.monotonic() + LET_IN
            while time.monotonic() < end and self._waiting_groups() == waiting:
                time.sleep(0.005)
            time.sleep(0.05)  # what is let in with it
            self._scheduler.send_signal(signal.SIGSTOP)
        finally:
            self._controllers.send_signal(signal.SIGCONT)
        try:
            wait_for(lambda: not self._lacks_pods(self._world.pods()))
        finally:
            self._scheduler.send_signal(signal.SIGCONT)

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
        groups = self._groups_of_jobs()
        for job in self._client.list(JOBS.path()).items:
            group = groups.get(job["metadata"]["uid"])
            if group is None:
                return True
            if not waits(group) and own[group["metadata"]["name"]] < sum(r["replicas"] for r in job["spec"]["tasks"]):
                return True
        return False

    def _all_have_groups(self) -> bool:
        """Whether the controllers have seen all jobs."""
        groups = self._groups_of_jobs()
        return all(job["metadata"]["uid"] in groups for job in self._client.list(JOBS.path()).items)

    def _groups_of_jobs(self) -> dict[str, Object]:
        """The podgroups of Volcano Jobs, by the uid of the job."""
        return {
            owner["uid"]: group
            for group in self._client.list(POD_GROUPS.path()).items
            for owner in group["metadata"].get("ownerReferences") or ()
        }

    def _waiting_groups(self) -> set[str]:
        """The podgroups without pods, because the scheduler has not let them in."""
        return {group["metadata"]["name"] for group in self._client.list(POD_GROUPS.path()).items if waits(group)}

    def _running(self) -> Counter[str]:
        """How many tasks of each job have a node. The job of a change has no group in its plan, only its own name."""
        return Counter(
            re.sub(f"^(default/{NEW_JOB})-.*", r"\1", f"{pod['metadata']['namespace']}/{group}")
            for pod in self._world.pods()
            if (group := pod["metadata"]["annotations"].get(GROUP))
            and pod["spec"].get("nodeName")
            and "deletionTimestamp" not in pod["metadata"]
        )


@contextmanager
def standing_still(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Stop a process for the time of a ``with`` block."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "the controllers do not finish"
        time.sleep(0.02)


def waits(group: Object) -> bool:
    """Whether the scheduler has not let a podgroup in."""
    return (group.get("status") or {}).get("phase", "Pending") == "Pending"


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
