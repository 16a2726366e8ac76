"""The queue commands against the embedded API."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from pumice.kube.client.api_errors import ApiError
from pumice.kube.client.sync_client import Client
from pumice.kube.resources import COMMANDS, JOBS, POD_GROUPS, QUEUES
from tests.cli.cluster.calls import Caller
from tests.cli.command import program, pumice_command

HEADING = "Name             Weight  State  Inqueue  Pending  Running  Unknown\n"
PREFIX = "queue.scheduling.volcano.sh"


@pytest.fixture(scope="module", autouse=True)
def note(cluster: tuple[Client, Path]) -> None:
    """The queues of the design note, with the podgroups that it counts."""
    client, _ = cluster
    for name, parent, weight in [("dev", "root", 5), ("test1", "dev", 1), ("test2", "dev", 2)]:
        queue = {"metadata": {"name": name, "labels": {"of": "note"}}, "spec": {"parent": parent, "weight": weight}}
        client.create(QUEUES.path(), {"apiVersion": QUEUES.api_version, "kind": "Queue", **queue})
    client.merge(QUEUES.path("", "default"), {"spec": {"weight": 5}})
    for name, each in [("default", 3), ("test1", 1), ("test2", 2)]:
        status = {"state": "Open", "inqueue": each, "running": each, "share": 0.25, "entitled": {"cpu": "10666m"}}
        client.merge(QUEUES.path("", name, "status"), {"status": status})


TREE = (
    HEADING
    + """\
root                  1   Open        6        0        6        0
|--default            5   Open        3        0        3        0
|--dev                5   Open        3        0        3        0
|  |--test1           1   Open        1        0        1        0
|  |--test2           2   Open        2        0        2        0
"""
)


@pytest.mark.parametrize("line", ["vqueues", "vcctl queue tree", "pumice queue tree"])
def test_the_table_of_the_note_under_every_name(kubeconfig: Path, line: str) -> None:
    name, *words = line.split()
    run = pumice_command if name == "pumice" else lambda *rest, **more: program(name, *rest, **more)
    done = run(*words, KUBECONFIG=str(kubeconfig))
    assert (done.stdout, done.stderr, done.returncode) == (TREE, "", 0)


def test_a_subtree(call: Caller) -> None:
    below = TREE.splitlines()[4:]
    shown = HEADING + "dev                   5   Open        3        0        3        0\n"
    shown += "".join(line.removeprefix("|  ")[:8] + "   " + line.removeprefix("|  ")[8:] + "\n" for line in below)
    for line in ("vqueues dev", "vqueues -n dev", "vqueues --name dev", "vqueues dev -N dev"):
        assert call.said(line) == shown


def test_every_output_of_the_tree(call: Caller, client: Client) -> None:
    order = ["root", "default", "dev", "test1", "test2"]
    assert call.said("vqueues -o name") == "".join(f"{PREFIX}/{name}\n" for name in order)
    for output, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        found = read(call.said(f"vqueues -o {output}"))
        assert (found["kind"], [item["metadata"]["name"] for item in found["items"]]) == ("List", order)
        assert found["items"][3] == client.get(QUEUES.path("", "test1"))
    wide = call.said("vqueues -o wide").splitlines()
    amounts = ["Share", "Allocated", "Entitled", "Deserved", "Guarantee", "Capability"]
    assert wide[0].split()[7:] == [*amounts, "UserLimits", "Namespaces"]
    assert wide[4].split()[-8:] == ["25%", "-", "cpu=10.666", "-", "-", "-", "-", "-"]
    assert call.said("vqueues -o table") == TREE


def test_list_children_and_get(call: Caller, client: Client) -> None:
    heading = "Name             Parent  Weight  State  Inqueue  Pending  Running  Unknown\n"
    test1 = "test1            dev          1   Open        1        0        1        0\n"
    test2 = "test2            dev          2   Open        2        0        2        0\n"
    assert call.said("vcctl queue children dev") == heading + test1 + test2
    assert call.said("vcctl queue get test2 test1") == heading + test2 + test1
    assert call.said("pumice queue list -l of=note,of!=x -o name").split() == [
        f"{PREFIX}/{n}" for n in ("dev", "test1", "test2")
    ]
    assert [line.split()[0] for line in call.said("vcctl queue list").splitlines()[1:]] == sorted(
        ["root", "default", "dev", "test1", "test2"]
    )
    assert json.loads(call.said("vcctl queue get dev -o json")) == client.get(QUEUES.path("", "dev"))
    assert yaml.safe_load(call.said("vcctl queue get dev test1 -o yaml"))["kind"] == "List"


def test_empty_result_is_reported_without_error(call: Caller) -> None:
    assert call("vcctl queue children test1") == (0, "", "test1 has no child queues\n")
    assert call("vcctl queue list -l a=b") == (0, "", "no queues found\n")
    assert json.loads(call.said("vcctl queue list -l a=b -o json")) == {"apiVersion": "v1", "kind": "List", "items": []}


def test_unknown_names_are_not_found(call: Caller) -> None:
    assert call("vqueues tset1") == (
        1,
        "",
        'error: queues.scheduling.volcano.sh "tset1" not found; did you mean test1?\n',
    )
    status, out, err = call("vcctl queue get dev zzz")
    assert (status, len(out.splitlines()), err) == (1, 2, 'error: queues.scheduling.volcano.sh "zzz" not found\n')
    assert call("vcctl queue operate zzz --weight 2").err == 'error: queues.scheduling.volcano.sh "zzz" not found\n'


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("vcctl queue get", "a NAME is required"),
        ("vcctl queue create", "a NAME is required"),
        ("vqueues dev -n test1", "two names given: dev and test1 (-n is the name of a queue"),
        ("vqueues -o xml", "'xml' is not one of"),
        ("vqueues --nonsense", "No such option"),
        ("vcctl queue operate dev", "an --action (open, close, pause, resume) or a --weight is required"),
        ("vcctl queue operate dev -a update", "an --action (open, close, pause, resume) or a --weight is required"),
        ("vcctl queue operate dev -a burn", "'burn' is not one of"),
        ("vcctl queue create x --min-user-limit-percent 101", "101 is not in the range 0<=x<=100"),
        ("vcctl queue create x --user-limit-factor 0", "must be greater than 0, or -1 for no limit"),
        ("vcctl queue create x --user-limit-factor nan", "must be greater than 0, or -1 for no limit"),
        ("vcctl queue create x --weight 0", "0 is not in the range 1<=x<=65535"),
        ("vcctl queue create x --deserved cpu=1,memory=4GB", "memory: '4GB' is not a quantity"),
    ],
)
def test_usage_errors_exit_with_2(call: Caller, line: str, words: str) -> None:
    status, out, err = call(line)
    assert (status, out) == (2, "")
    assert words in err.splitlines()[-1] and err.splitlines()[-1].startswith("error: ")


def test_making_queues(call: Caller, client: Client) -> None:
    options = (
        "--parent dev --weight 3 --deserved cpu=4,memory=8Gi --guarantee cpu=1 --capability cpu=8 --priority 2 "
        "--no-reclaimable --dequeue-strategy fifo --protected"
    )
    dry = yaml.safe_load(call.said(f"vcctl queue create made {options} --dry-run"))
    assert call("vcctl queue get made").status == 1
    assert call.said(f"vcctl queue create made {options}") == f"{PREFIX}/made created\n"
    found = client.get(QUEUES.path("", "made"))
    assert found["spec"] == dry["spec"] == {
        "parent": "dev",
        "weight": 3,
        "deserved": {"cpu": "4", "memory": "8Gi"},
        "guarantee": {"resource": {"cpu": "1"}},
        "capability": {"cpu": "8"},
        "priority": 2,
        "reclaimable": False,
        "dequeueStrategy": "fifo",
    }  # fmt: skip
    assert found["metadata"]["annotations"] == {"pumice.dev/protected": "true"}
    assert call.said("vcctl queue create -n made-2 -o name") == f"{PREFIX}/made-2\n"
    assert json.loads(call.said("pumice queue create made-3 -o json"))["spec"]["parent"] == "root"
    for name in ("made", "made-2", "made-3"):
        client.merge(QUEUES.path("", name), {"metadata": {"annotations": None}})
        client.delete(QUEUES.path("", name))


def test_server_refusal_names_object_and_field(call: Caller) -> None:
    assert call("vcctl queue create x -p nope") == (
        1,
        "",
        "error: queues/x: spec.parent: Not found: 'nope': create that queue first, or use 'root'\n",
    )
    status, _, err = call("vcctl queue create Bad")
    assert status == 1 and err.startswith('error: Queue.scheduling.volcano.sh "Bad" is invalid: metadata.name: ')
    assert call("vcctl queue create dev").err == 'error: queues.scheduling.volcano.sh "dev" already exists\n'


# ---- orders --------------------------------------------------------------------------------------------------------


def commands(client: Client) -> list[dict[str, Any]]:
    return client.list(COMMANDS.path()).items


@contextmanager
def obeying(
    client: Client, action: str, queue: str, state: str, *, first: bool = True
) -> Iterator[list[dict[str, Any]]]:
    """A controller for one command: what it takes it carries out, before it deletes it or after."""
    taken: list[dict[str, Any]] = []
    ours = Client(client.access)

    def obey() -> None:
        while not (found := [each for each in commands(ours) if each["action"] == action]):
            time.sleep(0.02)
        taken.extend(found)
        steps = [
            lambda: ours.merge(QUEUES.path("", queue, "status"), {"status": {"state": state}}),
            lambda: ours.delete(COMMANDS.path("default", found[0]["metadata"]["name"])),
        ]
        for step in steps if first else reversed(steps):
            step()
            time.sleep(0.15)
        ours.close()

    thread = threading.Thread(target=obey)
    thread.start()
    yield taken
    thread.join(20)


@pytest.mark.parametrize(
    ("action", "order", "state", "said"),
    [
        ("close", "CloseQueue", "Closed", "closed"),
        (
            "close",
            "CloseQueue",
            "Closing",
            "closing: it accepts no more jobs, and closes when its jobs have finished",
        ),
        ("pause", "PauseQueue", "Paused", "paused"),
        ("resume", "ResumeQueue", "Open", "resumed (state Open)"),
        ("open", "OpenQueue", "Open", "opened"),
        (
            "open",
            "OpenQueue",
            "Closed",
            "is Closed: OpenQueue was executed, but the state of a parent queue takes precedence",
        ),
    ],
)
def test_operate_creates_a_command_and_waits(
    call: Caller, client: Client, action: str, order: str, state: str, said: str
) -> None:
    target = client.get(QUEUES.path("", "test1"))
    with obeying(client, order, "test1", state, first=action != "pause") as taken:
        wait = 3 if "takes precedence" in said else 20  # it waits for what does not come, or until it has come
        assert call.said(f"vcctl queue operate test1 --action {action} --wait {wait}") == f"{PREFIX}/test1 {said}\n"
    (command,) = taken
    owner = {"apiVersion": QUEUES.api_version, "kind": "Queue", "name": "test1", "uid": target["metadata"]["uid"]}
    assert command["target"] == owner
    assert command["metadata"]["ownerReferences"] == [owner]
    assert command["metadata"]["namespace"] == "default"
    client.merge(QUEUES.path("", "test1", "status"), {"status": {"state": "Open"}})


def test_command_without_controller_times_out_and_stays(call: Caller, client: Client) -> None:
    status, out, err = call("vcctl queue operate test1 -a close --wait 0.2")
    assert (status, out) == (1, "")
    assert err.startswith(f"error: {PREFIX}/test1: timed out after 0.2 s waiting for the command CloseQueue. It will")
    assert call.said("vcctl queue operate test1 -a open --wait 0") == f"{PREFIX}/test1 OpenQueue sent\n"
    found = commands(client)
    assert sorted(command["action"] for command in found) == ["CloseQueue", "OpenQueue"]
    for command in found:
        client.delete(COMMANDS.path("default", command["metadata"]["name"]))


def test_weight_change_creates_no_command(call: Caller, client: Client) -> None:
    assert call.said("vcctl queue operate test1 --weight 7") == f"{PREFIX}/test1 has weight 7\n"
    assert call.said("vcctl queue operate -n test1 -a update -w 1") == f"{PREFIX}/test1 has weight 1\n"
    assert client.get(QUEUES.path("", "test1"))["spec"]["weight"] == 1
    assert commands(client) == []


def test_effective_weight_is_changed_in_its_annotation(call: Caller, client: Client) -> None:
    weights = "volcano.sh/hierarchy-weights"
    for name, written in (
        ("weighed", {"volcano.sh/hierarchy": "root/eng/weighed", weights: "1/2/8"}),
        ("unweighed", {"volcano.sh/hierarchy": "root/eng/unweighed"}),
    ):
        document = {"apiVersion": QUEUES.api_version, "kind": "Queue"}
        client.create(QUEUES.path(), {**document, "metadata": {"name": name, "annotations": written}})
        assert call.said(f"vcctl queue operate {name} --weight 5") == f"{PREFIX}/{name} has weight 5\n"
        assert call.said(f"vcctl queue get {name}").splitlines()[1].split()[:3] == [name, "eng", "5"]
    assert client.get(QUEUES.path("", "weighed"))["metadata"]["annotations"][weights] == "1/2/5"
    assert weights not in client.get(QUEUES.path("", "unweighed"))["metadata"]["annotations"]
    for name in ("weighed", "unweighed"):
        client.delete(QUEUES.path("", name))


def test_a_weight_that_would_not_count_is_refused_with_the_reason(call: Caller, client: Client) -> None:
    entry = {"name": "below", "parameters": [{"name": "weight", "value": 2}]}
    client.create(
        QUEUES.path(),
        {
            "apiVersion": QUEUES.api_version,
            "kind": "Queue",
            "metadata": {"name": "above"},
            "spec": {"hierarchy": [entry, {"name": "free"}]},
        },
    )
    for name in ("below", "free"):
        call.said(f"vcctl queue create {name} -p above -w 2")
    assert call("vcctl queue operate below --weight 5") == (
        1,
        "",
        "error: queues/below: spec.hierarchy of queue 'above' gives it its weight and would set it back; change the "
        "parameter weight of the entry 'below' there; nothing was changed\n",
    )
    assert client.get(QUEUES.path("", "below"))["spec"]["weight"] == 2
    # A hierarchy that was handed down is set back itself: the one further up has to be changed.
    client.merge(QUEUES.path("", "above"), {"metadata": {"annotations": {"pumice.dev/handed-down": "true"}}})
    assert "spec.hierarchy of queue 'root' gives it its weight" in call("vcctl queue operate below --weight 5").err
    assert call.said("vcctl queue operate free --weight 5") == f"{PREFIX}/free has weight 5\n"
    status, out, err = call("vcctl queue operate root --weight 5")
    assert (status, out) == (1, "") and "root stands for the cluster and has no siblings" in err
    for name in ("below", "free", "above"):
        client.delete(QUEUES.path("", name))


def test_user_limits_are_options(call: Caller, client: Client) -> None:
    call.said("vcctl queue create limited --min-user-limit-percent 25 --user-limit-factor 0.5")
    spec = client.get(QUEUES.path("", "limited"))["spec"]
    assert (spec["minUserLimitPercent"], spec["userLimitFactor"]) == (25, 0.5)
    assert call.said("vcctl queue get limited -o wide").splitlines()[1].split()[-2] == "min=25%,factor=0.5"
    client.delete(QUEUES.path("", "limited"))
    assert "userLimitFactor: -1\n" in call.said("vcctl queue create x --user-limit-factor -1 --dry-run")


# ---- deleting ------------------------------------------------------------------------------------------------------


@pytest.fixture
def doomed(client: Client, call: Caller) -> Iterator[str]:
    """A queue ``old`` with one below it that has a job and a podgroup."""
    call.said("vcctl queue create old")
    call.said("vcctl queue create older -p old")
    call.said("vsub work -q older")
    group = {"metadata": {"name": "pods"}, "spec": {"queue": "older", "minMember": 1}}
    client.create(POD_GROUPS.path("default"), {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", **group})
    yield "  queue old\n  queue older\n  job default/work Pending\n  podgroup default/pods Pending\n"
    client.delete(JOBS.path("default", "work"))
    client.delete(POD_GROUPS.path("default", "pods"))
    for path in [QUEUES.path("", name) for name in ("older", "old")]:
        with suppress(ApiError):
            client.merge(path, {"metadata": {"annotations": None}})
            client.delete(path)


def test_delete_without_terminal_requires_yes(call: Caller, client: Client, doomed: str) -> None:
    assert call.said("vcctl queue delete old --dry-run") == f"would be deleted:\n{doomed}"
    status, out, err = call("vcctl queue delete old")
    assert (status, out) == (1, "")
    assert err == (
        f"will be deleted:\n{doomed}"
        "error: cannot ask for confirmation: standard input is not a terminal; use --yes to delete without asking\n"
    )
    assert client.get(QUEUES.path("", "old"))
    assert call.said("vcctl queue delete older old --yes") == f"{PREFIX}/older deleted\n{PREFIX}/old deleted\n"
    assert call("vcctl queue get old").status == 1


def test_delete_with_one_unknown_name_deletes_nothing(call: Caller, client: Client, doomed: str) -> None:
    status, out, err = call("vcctl queue delete old oldre --yes")
    assert (status, out) == (1, "")
    assert err == 'error: queues.scheduling.volcano.sh "oldre" not found; did you mean older?\n'
    assert client.get(QUEUES.path("", "old"))


def test_protected_queue_and_its_parents_cannot_be_deleted(call: Caller, client: Client, doomed: str) -> None:
    client.merge(QUEUES.path("", "older"), {"metadata": {"annotations": {"pumice.dev/protected": "true"}}})
    assert "  queue older (protected)\n" in call.said("vcctl queue delete old --dry-run")
    status, out, err = call("vcctl queue delete old --yes")
    assert (status, out) == (1, "")
    first, *gone = err.splitlines()
    assert first == (
        "error: queues/old: 'older' is protected (annotation pumice.dev/protected), so nothing was deleted. "
        "Would be deleted:"
    )
    assert [line.strip() for line in gone][:2] == ["queue older", "queue old"]
    assert sorted(line.strip() for line in gone[2:]) == ["Job default/work", "PodGroup default/pods"]


def test_root_and_default_stay(call: Caller) -> None:
    assert call("vcctl queue delete default --yes").err == (
        "error: queues/default: queue 'default' cannot be deleted; close it to stop new jobs\n"
    )


def test_long_lists_are_cut_short(call: Caller, client: Client) -> None:
    call.said("vcctl queue create many")
    for i in range(25):
        group = {"metadata": {"name": f"many-{i:02}"}, "spec": {"queue": "many"}}
        client.create(POD_GROUPS.path("default"), {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", **group})
    shown = call.said("vcctl queue delete many --dry-run").splitlines()
    assert (len(shown), shown[-1]) == (1 + 1 + 20 + 1, "  and 5 more podgroups")
    for i in range(25):
        client.delete(POD_GROUPS.path("default", f"many-{i:02}"))
    call.said("vcctl queue delete many --yes")
