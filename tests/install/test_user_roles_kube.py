"""Users with the shipped roles on a real API server: what each may do, and what the commands say to each.

ann submits jobs in namespace team, vic looks at them, quinn also sees queues, and ada administers queues.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import kubernetes
from pumice.install.user_roles import COMMAND_POLICY, QUEUE_ADMIN, QUEUE_VIEWER, SUBMITTER, VIEWER
from tests.install.working_day import Day
from tests.support.installed import Real, everything, pumice, real_server, until

pytestmark = pytest.mark.kube
TEAM = "team"
CONFIG = """\
actions: "enqueue, allocate"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: drf, enableHierarchy: true}, {name: predicates}]
defaultQueue: research
"""
IN_TEAM = {"ann": SUBMITTER, "vic": VIEWER, "quinn": VIEWER}
IN_CLUSTER = {"quinn": QUEUE_VIEWER, "ada": QUEUE_ADMIN}
Object = dict[str, Any]


class Users:
    """The users, and their kubeconfigs."""

    def __init__(self, real: Real) -> None:
        self.real = real
        self.kubectl = real.kubectl(TEAM)
        self.kubectl("create", "namespace", TEAM)
        for name in sorted({*IN_TEAM, *IN_CLUSTER}):
            account = f"--serviceaccount={TEAM}:{name}"
            self.kubectl("create", "serviceaccount", name)
            if role := IN_TEAM.get(name):
                self.kubectl("create", "rolebinding", name, f"--clusterrole={role}", account)
            if role := IN_CLUSTER.get(name):
                self.kubectl("create", "clusterrolebinding", name, f"--clusterrole={role}", account)
            real.write_kubeconfig(name, self.kubectl("create", "token", name, "--duration=2h").strip(), TEAM)

    def runs(self, name: str, *arguments: str) -> tuple[int, str, str]:
        """A command of ours, as a user."""
        return pumice(self.real.folder / f"{name}.kubeconfig", *arguments)

    def may(self, name: str, verb: str, resource: str, namespace: str = TEAM) -> bool:
        who = f"--as=system:serviceaccount:{TEAM}:{name}"
        return self.real.kubectl(namespace).tried("auth", "can-i", verb, resource, who)[0] == 0


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    folder: Path = tmp_path_factory.mktemp("users")
    (folder / "scheduler.yaml").write_text(CONFIG)
    with real_server(folder) as real:
        (port,) = kubernetes.free_ports(1)
        assert pumice(real.admin, "install", "--webhook-url", f"https://127.0.0.1:{port}")[0] == 0
        with everything(real, port, ["--config", str(folder / "scheduler.yaml")]):
            Day(real).node("n", 4)
            users = Users(real)
            until(lambda: pumice(real.admin, "queue", "create", "research")[0] == 0, what="webhooks answer")
            published = "jsonpath={.status.scheduler.defaultQueue}"
            until(lambda: users.kubectl("get", "queue", "root", "-o", published) == "research")
            until(lambda: "in queue research" in users.runs("ann", "job", "run", "big", "-r2", "-m2", "-R", "cpu=3")[1])
            condition = "jsonpath={.items[*].status.conditions[*].message}"
            until(lambda: users.kubectl("get", "podgroups", "-o", condition), what="the scheduler says why it waits")
            yield users


def test_each_may_do_what_the_table_says(users):
    jobs, groups = "jobs.batch.volcano.sh", "podgroups.scheduling.volcano.sh"
    queues, commands = "queues.scheduling.volcano.sh", "commands.bus.volcano.sh"
    granted = {
        name: {
            f"{verb} {resource}"
            for verb in ("list", "create", "update", "delete")
            for resource in (jobs, groups, queues, commands, "nodes", "pods")
            if users.may(name, verb, resource)
        }
        for name in ("ann", "vic", "quinn", "ada")
    }
    look = {f"list {jobs}", f"list {groups}", "list pods"}
    write = {f"{verb} {resource}" for verb in ("create", "update", "delete") for resource in (jobs, groups)}
    command = {f"{verb} {commands}" for verb in ("list", "create", "delete")}
    govern = {f"{verb} {queues}" for verb in ("list", "create", "update", "delete")}
    assert granted == {
        "ann": look | write | command,
        "vic": look,
        "quinn": look | {f"list {queues}"},
        "ada": look | command | govern | {"list nodes"},
    }
    assert not users.may("ann", "create", jobs, "default"), "a RoleBinding counts in its namespace"


def test_the_roles_join_those_of_the_cluster(users):
    label = "jsonpath={.metadata.labels.rbac\\.authorization\\.k8s\\.io/aggregate-to-%s}"
    for role, whole in ((VIEWER, "view"), (SUBMITTER, "edit")):
        assert users.kubectl("get", "clusterrole", role, "-o", label % whole) == "true"


def test_a_submitter_suspends_jobs_but_no_queue(users):
    assert users.runs("ann", "job", "run", "pause", "-R", "cpu=1")[0] == 0
    status, said, wrong = users.runs("ann", "job", "suspend", "pause")
    assert status == 0, said + wrong

    def command(target: str) -> Object:
        about = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": target, "uid": ""}
        made = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": {"generateName": "close-"}}
        return {**made, "action": "CloseQueue", "target": about}

    ann = f"--as=system:serviceaccount:{TEAM}:ann"
    status, said = users.kubectl.tried("create", "-f", "-", ann, given=command("research"))
    assert status == 1 and COMMAND_POLICY in said
    assert f'target: system:serviceaccount:{TEAM}:ann may not update queue "research"' in said
    status, said, wrong = users.runs("ada", "queue", "operate", "default", "--action", "close")
    assert status == 0 and "closed" in said, wrong
    assert users.runs("ada", "queue", "operate", "default", "--action", "open")[0] == 0


def test_users_list_their_own_jobs(users):
    assert users.runs("ann", "job", "list", "--me")[1].splitlines()[1].startswith("big ")
    status, said, notes = users.runs("vic", "job", "list", "--me")
    assert (status, said) == (0, "") and f"no jobs of user system:serviceaccount:{TEAM}:vic" in notes


def test_why_answers_a_user_of_one_namespace(users):
    for name in ("ann", "vic"):
        status, said, wrong = users.runs(name, "why", "big")
        assert (status, wrong) == (0, "")
        assert said.startswith(f"{TEAM}/big waits: "), said
        assert "the scheduler has written no reason" not in said
        assert f"you may not list nodes, queues and outside namespace {TEAM} podgroups, pods; the answer is" in said
        assert said.count("tasks together (cpu 6), more than the cluster could hold") == 1, "the Event says the same"
        assert "queue research is" not in said, "this user does not see queues"
    status, said, _ = users.runs("quinn", "why", "big")
    assert status == 0 and "queue research is Open: " in said
    status, said, _ = users.runs("ada", "why", "big", "-n", TEAM)
    assert status == 0 and "you may not list" not in said and "NODES" in said


def test_why_of_a_job_that_does_not_exist_is_still_an_error(users):
    status, _, wrong = users.runs("ann", "why", "bigg")
    assert status == 1
    assert f'PodGroup, Job or pod "bigg" not found in namespace {TEAM}; did you mean big?' in wrong


def test_top_shows_what_the_user_may_see(users):
    status, said, notes = users.runs("ann", "top", "--once")
    assert (status, said) == (0, "")
    assert "note: you may not list queues; ask an administrator for the ClusterRole pumice-queue-viewer" in notes
    status, said, notes = users.runs("quinn", "top", "--once")
    assert status == 0 and said.startswith("nodes unknown  cpu ") and "research" in said
    assert "note: you may not list nodes; USED is the share that the scheduler wrote" in notes
    status, said, notes = users.runs("ada", "top", "--once")
    assert (status, notes) == (0, "") and said.startswith("1 node  cpu ")
