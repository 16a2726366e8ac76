"""``pumice up --here --shared`` with real users of this machine, who try to get at what is not theirs."""

from __future__ import annotations

import json
import os
import ssl
import stat
import urllib.error
import urllib.request
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pumice.agent.shim.records import STATE, read_record
from pumice.agent.shim.volume_mounts import may_mount
from pumice.kube.client.api_errors import ApiError
from pumice.kube.client.kubeconfig import read_kubeconfig
from pumice.kube.client.shared_socket import LOGIN_PATH, REVIEWS
from pumice.kube.client.sync_client import Client
from pumice.kube.resources import COMMANDS, CONFIG_MAPS, JOBS, NAMESPACES, NODES, POD_GROUPS, PODS, QUEUES, SECRETS
from tests.support.machines import command_pids
from tests.support.people import Account, Object, SharedMachine, accounts, job_of, need_root, open_folder, pod_of
from tests.support.processes import run_process

pytestmark = pytest.mark.timeout(600)

SUFFIX = f"{os.getpid() % 100_000}"
NAMES = [f"{name}{SUFFIX}" for name in ("anna", "bela", "carl")]
ADMINS = f"admins{SUFFIX}"
DEPLOYMENTS, BATCH_JOBS = "/apis/apps/v1", "/apis/batch/v1"


class World:
    """The machine and its users: carl is an administrator."""

    def __init__(self, machine: SharedMachine, people: list[Account], folder: Path) -> None:
        self.machine = machine
        self.anna, self.bela, self.carl = people
        self.folder = folder
        self.anna_pid = 0


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    need_root()
    if not may_mount():
        pytest.skip("this process may not give a child mounts of its own")
    with open_folder() as folder, accounts(folder, *NAMES, group=ADMINS) as people:
        machine = SharedMachine(folder, ADMINS, "--no-ui")
        try:
            found = World(machine, people, folder)
            _prepare_anna(found)
            yield found
        finally:
            machine.end()


def _prepare_anna(world: World) -> None:
    """A Secret and a running pod of anna, which the others are after."""
    machine, anna = world.machine, world.anna
    secret = {"metadata": {"name": "key"}, "stringData": {"word": "anna-knows"}}
    env = [{"name": "PASSWORD", "value": "anna-hides"}]
    pod = pod_of("long", "echo anna-says; echo $$$$; sleep 1000 # anna-runs", env=env)
    pod["metadata"] |= {"labels": {"project": "anna-plans"}, "annotations": {"note": "anna-notes"}}
    machine.as_user(anna, lambda client: client.create(SECRETS.path(anna.name), secret))
    machine.as_user(anna, lambda client: client.create(PODS.path(anna.name), pod))
    machine.until(lambda: (machine.pod(anna, "long").get("status") or {}).get("phase") == "Running")
    lines = machine.until(lambda: found if len(found := machine.log(anna, "long").split()) == 2 else [])
    assert lines[0] == "anna-says"
    world.anna_pid = int(lines[1])


# ---- processes --------------------------------------------------------------------------------------------


def test_processes_run_as_the_user_with_nothing_of_root(world: World) -> None:
    script = (
        "id -u; id -G; umask; pwd; ls /proc/self/fd | wc -l; env | cut -d= -f1 | sort | tr '\\n' ' '; echo; "
        "grep -E '^(CapEff|CapPrm|NoNewPrivs)' /proc/self/status | tr '\\n' ' '; echo; "
        "echo again > /dev/stdout; touch f"
    )
    anna = world.anna
    uid, groups, umask, place, files, names, rights, again = world.machine.output(anna, "who", script).splitlines()
    assert (uid, groups, umask, place, again) == (str(anna.uid), str(anna.gid), "0022", str(anna.home), "again")
    assert int(files) == 4  # in, out, err, and the folder that ls reads
    assert set(names.split()) == {
        *("HOME", "USER", "LOGNAME", "SHELL", "PATH", "HOSTNAME", "PWD"),
        *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "PUMICE_POD_UID", "PUMICE_CONTAINER"),
    }
    assert rights.split() == ["CapPrm:", "0" * 16, "CapEff:", "0" * 16, "NoNewPrivs:", "1"]
    assert (anna.home / "f").stat().st_uid == anna.uid


def test_a_members_groups_are_taken_and_root_runs_as_root(world: World) -> None:
    import grp

    groups = world.machine.output(world.carl, "groups", "id -G").split()
    assert sorted(map(int, groups)) == sorted([world.carl.gid, grp.getgrnam(ADMINS).gr_gid])
    root = Account("default", 0, 0, Path("/root"))  # the namespace default is root's
    world.machine.root.create(PODS.path("default"), pod_of("mine", "id -u"))
    world.machine.ended(root, "mine")
    log = b"".join(world.machine.root.text_lines(PODS.path("default", "mine", "log"), {}))
    assert log == b"0\n"


def test_folders_are_entered_and_volumes_opened_as_the_user(world: World) -> None:
    """Also folders that everybody may read, but that are behind one that only root may enter."""
    machine, bela = world.machine, world.bela
    hidden = world.folder / "hidden"
    (hidden / "inside").mkdir(parents=True)
    hidden.chmod(0o700)
    (hidden / "inside").chmod(0o755)
    (hidden / "inside" / "word").write_text("root-knows")
    guarded = world.folder / "guarded"
    guarded.mkdir(mode=0o755)

    def tried(name: str, path: Path, kind: str = "", target: str = "/mnt", **more: Any) -> str:
        volumes = [{"name": "v", "hostPath": {"path": str(path), **({"type": kind} if kind else {})}}]
        mounts = [{"name": "v", "mountPath": target, **more}]
        status = machine.run_pod(bela, name, "cat /mnt/word", spec={"volumes": volumes}, volumeMounts=mounts)
        ended = status["containerStatuses"][0]["state"]["terminated"]
        assert ended["reason"] == "StartError", ended
        return str(ended["message"])

    assert "Permission denied" in tried("behind", hidden / "inside")
    (bela.home / "link").symlink_to(hidden / "inside")
    assert "Permission denied" in tried("link", bela.home / "link")
    assert "Permission denied" in tried("created", guarded / "new", "DirectoryOrCreate")
    assert "Permission denied" in tried("target", bela.home, target=str(guarded / "point"))
    assert "Permission denied" in tried("agent", machine.data / "agent" / "pods")
    assert not any(guarded.iterdir())
    status = machine.run_pod(bela, "workdir", "pwd", workingDir=str(world.anna.home))
    assert "Permission denied" in status["containerStatuses"][0]["state"]["terminated"]["message"]


def test_volumes_are_the_users_own_and_links_in_them_lead_nowhere(world: World) -> None:
    machine, bela = world.machine, world.bela
    machine.as_user(
        bela,
        lambda client: client.create(SECRETS.path(bela.name), {"metadata": {"name": "s"}, "stringData": {"k": "v"}}),
    )
    volumes = [{"name": "empty", "emptyDir": {}}, {"name": "secret", "secret": {"secretName": "s"}}]
    mounts = [{"name": "empty", "mountPath": "/mnt"}, {"name": "secret", "mountPath": str(bela.home / "secret")}]
    script = f"cat secret/k; echo; stat -c '%u %a' /mnt secret; touch /mnt/x && echo written; ls {machine.data}"
    output = machine.output(bela, "volumes", script, spec={"volumes": volumes}, volumeMounts=mounts).splitlines()
    assert output[:4] == ["v", f"{bela.uid} 700", f"{bela.uid} 700", "written"]
    assert "Permission denied" in output[4]

    planted = {
        "name": "plant",
        "image": "host",
        "command": ["/bin/sh", "-c", f"ln -s {world.folder} /mnt/sub"],
        "volumeMounts": [{"name": "empty", "mountPath": "/mnt"}],
    }
    spec = {"volumes": volumes[:1], "initContainers": [planted]}
    mounts = [{"name": "empty", "mountPath": "/mnt", "subPath": "sub"}]
    status = machine.run_pod(bela, "planted", "ls /mnt", spec=spec, volumeMounts=mounts)
    assert "symbolic link" in status["containerStatuses"][0]["state"]["terminated"]["message"]


def test_a_mount_over_proc_does_not_lead_the_next_one_elsewhere(world: World) -> None:
    """Descriptors are mounted by their names in /proc, where the user has put links to folders of root instead."""
    machine, bela = world.machine, world.bela
    inside = world.folder / "behind" / "inside"
    inside.mkdir(parents=True)
    inside.parent.chmod(0o700)
    inside.chmod(0o755)
    (inside / "word").write_text("root-knows")

    def plant() -> None:
        (bela.home / "door").symlink_to("/proc")
        (bela.home / "room").mkdir()
        for attempt in range(4):  # some numbers lead to the folder of root, others to the mount point
            numbers = bela.home / f"fake-{attempt}" / "self" / "fd"
            numbers.mkdir(parents=True)
            for number in range(64):
                leads = inside if number >> attempt // 2 & 1 == attempt % 2 else bela.home / "room"
                (numbers / str(number)).symlink_to(leads)

    bela.does(plant)
    for attempt in range(4):
        volumes = [
            {"name": "fake", "hostPath": {"path": str(bela.home / f"fake-{attempt}")}},
            {"name": "empty", "emptyDir": {}},
        ]
        mounts = [
            {"name": "fake", "mountPath": str(bela.home / "door")},
            {"name": "empty", "mountPath": str(bela.home / "room")},
        ]
        spec = {"volumes": volumes}
        script = "cat room/word; ls /proc/self/fd | wc -l; touch room/mine && echo written"
        said = machine.output(bela, f"proc-{attempt}", script, spec=spec, volumeMounts=mounts)
        assert "root-knows" not in said
        assert {"64", "written"} <= set(said.splitlines()), said  # the mount over /proc is there, for this process


def test_a_read_only_volume_keeps_what_its_mount_forbids(world: World) -> None:
    """Device files and setuid programs on a stick that is mounted with nodev and nosuid stay without effect."""
    machine, bela = world.machine, world.bela
    stick = world.folder / "stick"
    stick.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "nosuid,nodev,noexec,size=64k", "stick", str(stick)]
    assert run_process(mount).returncode == 0
    try:
        os.mknod(stick / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        (stick / "null").chmod(0o666)
        volumes = [{"name": "v", "hostPath": {"path": str(stick)}}]
        mounts = [{"name": "v", "mountPath": "/mnt", "readOnly": True}]
        script = "cat /mnt/null || echo kept; grep ' /mnt ' /proc/self/mounts; touch /mnt/x || echo reads"
        said = machine.output(bela, "stick", script, spec={"volumes": volumes}, volumeMounts=mounts)
        assert "kept" in said and "reads" in said, said
        (line,) = (line for line in said.splitlines() if " /mnt tmpfs " in line)
        assert {"ro", "nosuid", "nodev", "noexec"} <= set(line.split()[3].split(","))
    finally:
        assert run_process(["umount", str(stick)]).returncode == 0


def test_a_copy_of_the_output_is_written_with_the_rights_of_the_user(world: World) -> None:
    """Not with those of the shim: in files of /proc, and where a quota holds, root may write what the user may not."""
    machine, bela = world.machine, world.bela
    pod = pod_of("favoured", "echo 123456")
    mine = machine.as_user(bela, lambda client: client.create(PODS.path(bela.name), pod_of("marked", "sleep 1000")))
    machine.until(lambda: (machine.pod(bela, "marked").get("status") or {}).get("phase") == "Running")
    folder = machine.data / "agent" / "pods" / mine["metadata"]["uid"]
    pid = read_record(str(folder / STATE))["containers"][0]["run"]["pid"]
    before = Path(f"/proc/{pid}/timerslack_ns").read_text()
    pod["metadata"]["annotations"] = {"pumice.dev/output": f"/proc/{pid}/timerslack_ns"}
    machine.as_user(bela, lambda client: client.create(PODS.path(bela.name), pod))
    assert machine.ended(bela, "favoured")["phase"] == "Succeeded"
    assert Path(f"/proc/{pid}/timerslack_ns").read_text() == before
    machine.as_user(bela, lambda client: client.delete(PODS.path(bela.name, "marked")))


def test_setuid_programs_give_nothing(world: World) -> None:
    """Not even where their files are replaced by volumes of the user."""
    program = world.folder / "as-root"
    program.write_bytes(Path("/usr/bin/id").read_bytes())
    program.chmod(0o4755)
    bela = world.bela
    spec = {"volumes": [{"name": "home", "hostPath": {"path": str(bela.home)}}]}
    mounts = [{"name": "home", "mountPath": "/etc/pam.d"}]
    output = world.machine.output(bela, "setuid", f"{program} -u; ls -d /etc/pam.d", spec=spec, volumeMounts=mounts)
    assert output.split() == [str(bela.uid), "/etc/pam.d"]


def test_processes_and_files_of_others_are_out_of_reach(world: World) -> None:
    pid, agent = world.anna_pid, world.machine.data / "agent"
    shim = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1]
    script = (
        f"cat /proc/{pid}/environ; kill -9 {pid}; kill -9 {shim}; ls /proc/{pid}/fd /proc/{pid}/root/; "
        f"find {agent} {world.anna.home}; cat {world.machine.data}/kubeconfig"
    )
    output = world.machine.output(world.bela, "curious", script)
    assert output.count("ermi") >= 7, output  # Permission denied, Operation not permitted
    assert "anna-hides" not in output
    assert Path(f"/proc/{pid}").exists()
    assert world.bela.does(lambda: os.access(world.machine.socket, os.W_OK))  # only this is everybody's
    assert not world.bela.does(lambda: os.access(agent, os.X_OK))
    with pytest.raises(PermissionError):
        world.bela.does(world.machine.socket.unlink)


def test_a_deep_tree_of_folders_does_not_keep_the_agent_from_removing_a_pod(world: World) -> None:
    machine, bela = world.machine, world.bela
    spec = {"volumes": [{"name": "v", "emptyDir": {}}]}
    script = f"mkdir -p /mnt/{'d/' * 1500} && echo deep"
    mounts = [{"name": "v", "mountPath": "/mnt"}]
    assert "deep" in machine.output(bela, "deep", script, spec=spec, volumeMounts=mounts)
    uid = machine.pod(bela, "deep")["metadata"]["uid"]
    machine.as_user(bela, lambda client: client.delete(PODS.path(bela.name, "deep")))
    machine.until(lambda: not (machine.data / "agent" / "pods" / uid).exists())


# ---- the API ----------------------------------------------------------------------------------------------


def test_logs_secrets_and_objects_of_others_are_refused(world: World) -> None:
    machine, anna, bela = world.machine, world.anna, world.bela
    with pytest.raises(ApiError, match='cannot get resource "pods/log"'):
        machine.log(bela, "long", of=anna)
    machine.refused(bela, lambda client: client.get(SECRETS.path(anna.name, "key")), "cannot get", anna.name)
    machine.refused(bela, lambda client: client.list(SECRETS.path(anna.name)))
    machine.refused(bela, lambda client: client.list(SECRETS.path()), "at the cluster scope")
    machine.refused(bela, lambda client: client.list(SECRETS.path("kube-system")))
    machine.refused(bela, lambda client: client.list(CONFIG_MAPS.path(anna.name)))
    machine.refused(bela, lambda client: client.list(f"/api/v1/namespaces/{anna.name}/events"))
    machine.refused(bela, lambda client: client.delete(PODS.path(anna.name, "long")), "cannot delete")
    machine.refused(bela, lambda client: client.merge(PODS.path(anna.name, "long"), {"metadata": {"labels": {}}}))
    machine.refused(bela, lambda client: client.create(PODS.path(anna.name), pod_of("foreign", "id")), "cannot create")
    machine.refused(bela, lambda client: client.create(PODS.path("default"), pod_of("foreign", "id")))
    machine.refused(bela, lambda client: client.create(PODS.path("kube-system"), pod_of("foreign", "id")))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "long"}}
    machine.refused(bela, lambda client: client.create(PODS.path(anna.name, "long", "eviction"), eviction))
    env = [{"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "key", "key": "word"}}}]
    machine.as_user(bela, lambda client: client.create(PODS.path(bela.name), pod_of("borrow", "env", env=env)))
    waits = machine.until(lambda: (machine.pod(bela, "borrow").get("status") or {}).get("containerStatuses"))
    assert waits[0]["state"]["waiting"]["message"] == 'secret "key" not found'
    assert machine.log(anna, "long").startswith("anna-says")


def test_others_see_that_a_job_is_there_and_none_of_what_it_does(world: World) -> None:
    machine, anna, bela = world.machine, world.anna, world.bela
    paths = [PODS.path(), PODS.path(anna.name), POD_GROUPS.path(), JOBS.path()]
    seen = machine.as_user(bela, lambda client: [client.list(path).items for path in paths])
    words = ("anna-hides", "anna-runs", "anna-plans", "anna-notes", "anna-says")
    assert not any(word in json.dumps(seen) for word in words)
    pod = next(one for one in seen[0] if one["metadata"]["name"] == "long")
    assert pod["metadata"]["namespace"] == anna.name
    assert pod["metadata"]["annotations"]["volcano.sh/user"] == anna.name
    assert pod["status"]["phase"] == "Running"
    assert pod["spec"]["containers"] == [{"name": "main", "resources": {"requests": {"cpu": "100m", "memory": "16Mi"}}}]
    assert any(one["spec"]["queue"] == "default" for one in seen[2])

    def asks_otherwise(client: Client) -> list[Any]:
        chosen = client.list(PODS.path(), {"labelSelector": "project=anna-plans"}).items
        one = client.get(PODS.path(anna.name, "long"))
        _, event = next(iter(client.watch(PODS.path(), "0", {"timeoutSeconds": "1"})))
        return [chosen, one, event, client.names(PODS.path())]

    answers = machine.as_user(bela, asks_otherwise)
    assert answers[0] == []  # a selector tells nothing about labels that are hidden
    assert not any(word in json.dumps(answers) for word in words)
    own = machine.as_user(anna, lambda client: client.list(PODS.path()).items)
    assert "anna-runs" in json.dumps(own)
    everything = machine.as_user(world.carl, lambda client: client.list(PODS.path()).items)
    assert "anna-runs" in json.dumps(everything)


def test_a_user_cannot_be_another_one(world: World) -> None:
    machine, anna, bela = world.machine, world.anna, world.bela
    forged = {"volcano.sh/user": anna.name}
    pod = pod_of("forged", "id")
    pod["metadata"]["annotations"] = forged
    machine.refused(bela, lambda client: client.create(PODS.path(bela.name), pod), f"must be '{bela.name}'")
    job = job_of("forged", "id", annotations=forged)
    machine.refused(bela, lambda client: client.create(JOBS.path(bela.name), job), "tasks[0].template")
    template = {"metadata": {"labels": {"a": "b"}, "annotations": forged}, "spec": pod_of("x", "sleep 100")["spec"]}
    template["spec"]["restartPolicy"] = "Always"
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "forged"}, "spec": spec}
    path = f"{DEPLOYMENTS}/namespaces/{bela.name}/deployments"
    machine.refused(bela, lambda client: client.create(path, deployment), "volcano.sh/user")
    status = machine.run_pod(bela, "runas", "id -u", spec={"securityContext": {"runAsUser": anna.uid}})
    assert status["reason"] == "Unsupported"
    assert f"owner of the namespace ({bela.uid})" in status["message"]
    owner = {"metadata": {"annotations": {"pumice.dev/owner-uid": "0"}}}
    machine.refused(bela, lambda client: client.merge(NAMESPACES.path("", bela.name), owner), "cannot patch")

    def later(client: Client) -> None:
        client.create(PODS.path(bela.name), pod_of("later", "sleep 100", spec={"schedulerName": "nobody"}))
        client.merge(PODS.path(bela.name, "later"), {"metadata": {"annotations": forged}})

    machine.refused(bela, later, "volcano.sh/user")


def test_controllers_run_what_they_make_as_the_user_who_asked(world: World) -> None:
    machine, bela = world.machine, world.bela
    path = f"{BATCH_JOBS}/namespaces/{bela.name}/jobs"
    spec = {"template": {"spec": pod_of("x", "id -u")["spec"]}}
    batch = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "batch"}, "spec": spec}
    machine.as_user(bela, lambda client: client.create(path, batch))
    machine.as_user(bela, lambda client: client.create(JOBS.path(bela.name), job_of("vc", "id -u")))

    def ends() -> list[Object]:
        pods: list[Object] = machine.root.list(PODS.path(bela.name)).items
        mine = [pod for pod in pods if pod["metadata"]["name"].startswith(("batch-", "vc-"))]
        over = [pod for pod in mine if pod["status"]["phase"] == "Succeeded"]
        return over if len(over) == 2 else []

    for pod in machine.until(ends):
        assert pod["metadata"]["annotations"]["volcano.sh/user"] == bela.name
        assert machine.log(bela, pod["metadata"]["name"]) == f"{bela.uid}\n"
    groups = machine.root.list(POD_GROUPS.path(bela.name)).items
    assert {group["metadata"]["annotations"]["volcano.sh/user"] for group in groups} == {bela.name}


def test_the_scheduler_and_administrators_keep_what_is_theirs(world: World) -> None:
    machine, bela = world.machine, world.bela
    node = machine.root.list(NODES.path()).items[0]["metadata"]["name"]
    create = PODS.path(bela.name)
    machine.refused(bela, lambda client: client.create(create, pod_of("n", "id", spec={"nodeName": node})), "nodeName")
    critical = pod_of("c", "id", spec={"priorityClassName": "system-node-critical"})
    machine.refused(bela, lambda client: client.create(create, critical), "priorityClassName")
    kept = pod_of("k", "id")
    kept["metadata"]["annotations"] = {"volcano.sh/preemptable": "false"}
    machine.refused(bela, lambda client: client.create(create, kept), "preemptable")
    term = {"topologyKey": "kubernetes.io/hostname", "namespaceSelector": {}, "labelSelector": {}}
    away = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    machine.refused(bela, lambda client: client.create(create, pod_of("a", "id", spec={"affinity": away})), "namespace")
    slow = pod_of("s", "id", spec={"terminationGracePeriodSeconds": 10**6})
    machine.refused(bela, lambda client: client.create(create, slow), "at most 600 seconds")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "long", "blockOwnerDeletion": True}
    owner["uid"] = machine.pod(world.anna, "long")["metadata"]["uid"]
    owned = pod_of("o", "id")
    owned["metadata"]["ownerReferences"] = [owner]
    machine.refused(bela, lambda client: client.create(create, owned), "same namespace")
    machine.as_user(bela, lambda client: client.create(create, pod_of("idle", "id", spec={"schedulerName": "nobody"})))
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "idle"}, "target": {"name": node}}
    machine.refused(
        bela, lambda client: client.create(PODS.path(bela.name, "idle", "binding"), binding), "pods/binding"
    )
    status = {"status": {"phase": "Succeeded"}}
    machine.refused(bela, lambda client: client.merge(PODS.path(bela.name, "idle", "status"), status), "pods/status")
    weight = {"spec": {"weight": 99}}
    machine.refused(bela, lambda client: client.merge(QUEUES.path("", "default"), weight), "cannot patch", "queues")
    machine.refused(bela, lambda client: client.merge(NODES.path("", node), {"spec": {"unschedulable": True}}))
    machine.refused(bela, lambda client: client.delete(QUEUES.path("", "default")))
    target = {"apiVersion": QUEUES.api_version, "kind": "Queue", "name": "default", "uid": "x"}
    command: Object = {"apiVersion": COMMANDS.api_version, "kind": COMMANDS.kind, "metadata": {"generateName": "c-"}}
    command |= {"action": "CloseQueue", "target": target}
    machine.refused(bela, lambda client: client.create(COMMANDS.path(bela.name), command), "queues are administrators'")
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
    machine.refused(bela, lambda client: client.create(f"/api/v1/namespaces/{bela.name}/resourcequotas", quota))
    with pytest.raises(ApiError):
        machine.as_user(bela, lambda client: client.merge(PODS.path(bela.name, "idle", "ephemeralcontainers"), {}))


def test_administrators_administer_and_do_not_become_others(world: World) -> None:
    machine, anna, bela, carl = world.machine, world.anna, world.bela, world.carl
    queue = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": "theirs"}, "spec": {"weight": 2}}
    queue["metadata"] = {"name": "theirs", "annotations": {"pumice.dev/users": f"{anna.name}, @{ADMINS}"}}
    machine.as_user(carl, lambda client: client.create(QUEUES.path(), queue))
    job = job_of("other", "true", queue="theirs")
    machine.refused(bela, lambda client: client.create(JOBS.path(bela.name), job), "is for", "may not use it")
    for account in (anna, carl):
        # mypy cannot infer a lambda with a default, which keeps the value of this turn of the loop
        machine.as_user(account, lambda client, name=account.name: client.create(JOBS.path(name), job))  # type: ignore[misc]
        machine.as_user(account, lambda client, name=account.name: client.delete(JOBS.path(name, "other")))  # type: ignore[misc]
    machine.as_user(bela, lambda client: client.create(JOBS.path(bela.name), job_of("ends", "sleep 1000")))
    machine.as_user(carl, lambda client: client.delete(JOBS.path(bela.name, "ends")))
    assert machine.as_user(carl, lambda client: client.get(SECRETS.path(anna.name, "key")))["data"]["word"]
    assert machine.log(carl, "long", of=anna).startswith("anna-says")
    pod = pod_of("as-other", "id")
    for namespace in (anna.name, "default", "kube-system"):
        path = PODS.path(namespace)
        # mypy cannot infer a lambda with a default, which keeps the value of this turn of the loop
        machine.refused(carl, lambda client, path=path: client.create(path, pod), "cannot create")  # type: ignore[misc]
    machine.refused(carl, lambda client: client.merge(SECRETS.path(anna.name, "key"), {"data": {}}))
    owner = {"metadata": {"annotations": {"pumice.dev/owner-uid": "0", "pumice.dev/owner": "root"}}}
    machine.refused(carl, lambda client: client.merge(NAMESPACES.path("", carl.name), owner), "only root may set it")
    machine.refused(carl, lambda client: client.merge(NAMESPACES.path("", carl.name, "status"), owner), "cannot patch")
    ours = {"metadata": {"name": "ours", **owner["metadata"]}}
    machine.refused(carl, lambda client: client.create(NAMESPACES.path(), ours), "only root may set it")
    machine.as_user(carl, lambda client: client.create(NAMESPACES.path(), {"metadata": {"name": "team"}}))
    machine.root.create(PODS.path("team"), pod_of("lost", "id"))
    status = machine.ended(Account("team", 0, 0, Path("/")), "lost")
    assert status["reason"] == "NamespaceWithoutOwner"


def test_tokens_are_for_one_user_and_come_over_the_socket_alone(world: World) -> None:
    machine, bela = world.machine, world.bela
    given = machine.as_user(bela, lambda client: client.create(LOGIN_PATH, {}))
    assert (given["user"], given["namespace"]) == (bela.name, bela.name)
    context = ssl.create_default_context(cadata=b64decode(given["certificateAuthorityData"]).decode())

    def asked(path: str, token: str, body: bytes | None = None, **headers: str) -> tuple[int, str]:
        headers |= {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        request = urllib.request.Request(given["server"] + path, body, headers)
        try:
            with urllib.request.urlopen(request, context=context) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    token = given["token"]
    review = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).encode()
    assert f'"username":"{bela.name}"' in asked(REVIEWS, token, review)[1]
    assert asked(PODS.path(bela.name), token)[0] == 200
    assert asked(SECRETS.path(world.anna.name), token)[0] == 403
    assert asked(PODS.path(bela.name), "")[0] == 401
    said, _, signature = token.partition(".")
    assert asked(PODS.path(bela.name), f"{said}.{'0' * len(signature)}")[0] == 401
    assert asked(PODS.path(bela.name), f"e30.{signature}")[0] == 401
    assert asked(LOGIN_PATH, token, b"{}")[0] == 403  # a stolen one ends
    code, words = asked(PODS.path(bela.name), token, None, **{"Impersonate-User": "root"})
    assert (code, "act as another user" in words) == (403, True)


def test_the_page_has_a_token_that_sees_what_everybody_sees(world: World) -> None:
    viewer = world.machine.data / "viewer.kubeconfig"
    assert stat.S_IMODE(viewer.stat().st_mode) == 0o600
    client = Client(read_kubeconfig(viewer))
    try:
        assert "anna-runs" not in json.dumps(client.list(PODS.path()).items)
        for path in (SECRETS.path(), SECRETS.path(world.anna.name), CONFIG_MAPS.path(world.anna.name)):
            with pytest.raises(ApiError, match="forbidden"):
                client.list(path)
        with pytest.raises(ApiError, match="forbidden"):
            client.create(PODS.path(world.anna.name), pod_of("page", "id"))
    finally:
        client.close()


def test_the_agent_serves_logs_to_root_alone(world: World) -> None:
    """It speaks with the server over Unix sockets in folders of root, so that it needs no OpenSSL, and no port."""
    (pid,) = command_pids(world.machine.data, "agent")
    maps = Path(f"/proc/{pid}/maps").read_text()
    assert "libssl" not in maps and "libcrypto" not in maps
    socket = world.machine.data / "agent" / "logs.sock"
    assert stat.S_IMODE(socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
    for each in (socket, world.machine.data / "api.sock", world.machine.data / "agent" / "bell"):
        assert world.anna.does(lambda path=each: os.access(path, os.F_OK)) is False  # type: ignore[misc]  # a default, as above
