"""Job plugins: from their arguments to environment, mounts, ports, commands and objects."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from pumice.controllers.jobs.job_status import JobStatus
from pumice.controllers.jobs.plugins import PLUGINS, plugin_problems, plugins_of
from pumice.controllers.jobs.plugins.ssh import with_key_pair
from pumice.controllers.jobs.pods import pod_of
from pumice.controllers.jobs.spec import Job, read_job
from tests.support.job_model import job, task
from tests.support.processes import run_process

Document = dict[str, Any]
OWNERS = [
    {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": "j",
        "uid": "u-j",
        "controller": True,
        "blockOwnerDeletion": True,
    }
]


def template(**spec: Any) -> Document:
    return {"spec": {"containers": [{"name": "c", "image": "x"}], **spec}}


def made(*tasks: Document, **plugins: list[str]) -> Job:
    return read_job(job(*tasks, plugins=plugins))


def pod(found: Job, name: str, index: int = 0) -> Document:
    wanted = found.task(name)
    assert wanted is not None
    return pod_of(found, wanted, index, JobStatus())


def env(document: Document, group: str = "containers") -> dict[str, str]:
    entries = document["spec"][group][0].get("env") or ()
    return {entry["name"]: entry["value"] for entry in entries if "value" in entry}


def objects(found: Job) -> dict[tuple[str, str], Document]:
    all_of = (document for plugin in plugins_of(found) for _, document in plugin.objects(found))
    return {(document["kind"], document["metadata"]["name"]): document for document in all_of}


TRAINING = (task("master", template=template()), task("worker", 2, template=template()))


@pytest.mark.parametrize(
    ("plugins", "name", "index", "added"),
    [
        ({"env": []}, "worker", 1, {"VC_TASK_INDEX": "1", "VK_TASK_INDEX": "1"}),
        (
            {"pytorch": []},
            "master",
            0,
            {"MASTER_ADDR": "j-master-0.j", "MASTER_PORT": "23456", "WORLD_SIZE": "3", "RANK": "0"},
        ),
        (
            {"pytorch": ["--port=29500"]},
            "worker",
            1,
            {"MASTER_ADDR": "j-master-0.j", "MASTER_PORT": "29500", "WORLD_SIZE": "3", "RANK": "2"},
        ),
        # Roles by other names: two masters of which one is asked, and a world without the task "master".
        (
            {"pytorch": ["--master", "worker", "--worker=master"]},
            "master",
            0,
            {"MASTER_ADDR": "j-worker-0.j", "MASTER_PORT": "23456", "WORLD_SIZE": "3", "RANK": "1"},
        ),
        ({"pytorch": ["--master=none"]}, "worker", 0, {}),
        ({"mpi": []}, "master", 0, {"MPI_HOST": "j-worker-0.j,j-worker-1.j"}),
        ({"mpi": []}, "worker", 0, {}),
        ({"mpi": ["--worker=none"]}, "master", 0, {}),
    ],
)
def test_plugins_add_environment(plugins: dict[str, list[str]], name: str, index: int, added: dict[str, str]) -> None:
    assert env(pod(made(*TRAINING, **plugins), name, index)) == added


@pytest.mark.parametrize(
    ("tasks", "arguments", "name", "index", "config"),
    [
        (
            [("ps", 1), ("worker", 2)],
            [],
            "worker",
            1,
            {
                "cluster": {"ps": ["j-ps-0.j:2222"], "worker": ["j-worker-0.j:2222", "j-worker-1.j:2222"]},
                "task": {"type": "worker", "index": 1},
            },
        ),
        (
            [("boss", 1), ("judge", 1), ("other", 1)],
            ["--chief=boss", "--evaluator=judge", "--port=80"],
            "judge",
            0,
            {
                "cluster": {"chief": ["j-boss-0.j:80"], "evaluator": ["j-judge-0.j:80"]},
                "task": {"type": "evaluator", "index": 0},
            },
        ),
        ([("worker", 1)], [], "worker", 0, None),
    ],
)
def test_tensorflow_describes_the_cluster(
    tasks: list[tuple[str, int]], arguments: list[str], name: str, index: int, config: Document | None
) -> None:
    found = made(*(task(each, replicas, template=template()) for each, replicas in tasks), tensorflow=arguments)
    added = env(pod(found, name, index))
    assert (json.loads(added["TF_CONFIG"]) if added else None) == config


def test_template_takes_precedence_over_plugins() -> None:
    own = {"name": "c", "image": "x", "env": [{"name": "RANK", "value": "7"}], "ports": [{"containerPort": 23456}]}
    found = made(task("master", template={"spec": {"containers": [own]}}), pytorch=[], env=[])
    before = copy.deepcopy(own)
    (container,) = pod(found, "master")["spec"]["containers"]
    assert [entry["value"] for entry in container["env"] if entry["name"] == "RANK"] == ["7"]
    assert container["ports"] == [{"containerPort": 23456}]
    assert own == before  # the template is the job's


@pytest.mark.parametrize(
    ("plugins", "port"),
    [
        ({"pytorch": ["--port=5"]}, {"name": "pytorchjob-port", "containerPort": 5}),
        ({"mpi": []}, {"name": "mpijob-port", "containerPort": 22}),
        ({"tensorflow": []}, None),
    ],
)
def test_plugins_declare_ports(plugins: dict[str, list[str]], port: Document | None) -> None:
    (container,) = pod(made(*TRAINING, **plugins), "worker")["spec"]["containers"]
    assert container.get("ports", []) == ([port] if port else [])


def test_svc_names_hosts() -> None:
    spec = template(initContainers=[{"name": "i", "image": "x"}])
    found = made(task("a-b", 2, template=spec), task("c", template=template()), svc=[])
    found_objects = objects(found)
    assert found_objects["ConfigMap", "j-svc"]["data"] == {
        "a_b.host": "j-a-b-0.j\nj-a-b-1.j",
        "VC_A_B_HOSTS": "j-a-b-0.j,j-a-b-1.j",
        "VC_A_B_NUM": "2",
        "c.host": "j-c-0.j",
        "VC_C_HOSTS": "j-c-0.j",
        "VC_C_NUM": "1",
    }
    labels = {"volcano.sh/job-name": "j", "volcano.sh/job-namespace": "ns"}
    service, policy = found_objects["Service", "j"]["spec"], found_objects["NetworkPolicy", "j"]["spec"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"], service["selector"]) == ("None", False, labels)
    assert policy == {
        "podSelector": {"matchLabels": labels},
        "ingress": [{"from": [{"podSelector": {"matchLabels": labels}}]}],
        "policyTypes": ["Ingress"],
    }
    assert {document["metadata"]["namespace"] for document in found_objects.values()} == {"ns"}
    assert all(document["metadata"]["ownerReferences"] == OWNERS for document in found_objects.values())
    first = pod(found, "a-b", 1)
    assert labels.items() <= first["metadata"]["labels"].items()  # or the Service would select nothing
    assert (first["spec"]["hostname"], first["spec"]["subdomain"]) == ("j-a-b-1", "j")
    assert first["spec"]["volumes"] == [{"name": "j-svc", "configMap": {"name": "j-svc"}}]
    for group in ("initContainers", "containers"):
        (container,) = first["spec"][group]
        assert container["volumeMounts"] == [{"name": "j-svc", "mountPath": "/etc/volcano"}]
        assert [entry["name"] for entry in container["env"]] == [
            "VC_A_B_HOSTS",
            "VC_A_B_NUM",
            "VC_C_HOSTS",
            "VC_C_NUM",
        ]
        assert container["env"][0]["valueFrom"] == {"configMapKeyRef": {"name": "j-svc", "key": "VC_A_B_HOSTS"}}


@pytest.mark.parametrize(
    ("argument", "published", "policies", "injected"),
    [
        ("--publish-not-ready-addresses=true", True, 1, True),
        ("--disable-network-policy", False, 0, True),
        ("--inject-hosts-env=false", False, 1, False),
    ],
)
def test_svc_follows_its_arguments(argument: str, published: bool, policies: int, injected: bool) -> None:
    found = made(svc=[argument])
    found_objects = objects(found)
    assert found_objects["Service", "j"]["spec"]["publishNotReadyAddresses"] is published
    assert sum(kind == "NetworkPolicy" for kind, _ in found_objects) == policies
    (container,) = pod(found, "worker")["spec"]["containers"]
    assert bool(container.get("env")) is injected
    assert container["volumeMounts"] == [{"name": "j-svc", "mountPath": "/etc/volcano"}]


def test_hosts_of_template_with_host_name() -> None:
    found = made(
        task("a", 2, template=template(hostname="alone", subdomain="elsewhere")),
        task("master", template=template()),
        svc=[],
        mpi=["--worker=a"],
    )
    assert objects(found)["ConfigMap", "j-svc"]["data"]["VC_A_HOSTS"] == "alone.elsewhere"
    assert env(pod(found, "master"))["MPI_HOST"] == "alone.elsewhere"
    spec = pod(found, "a")["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("alone", "elsewhere")


@pytest.mark.parametrize(
    ("arguments", "folder", "mode", "port"),
    [
        ([], "/root/.ssh", 0o600, 22),
        (["--no-root"], "/etc/volcano/.ssh", 0o644, 22),
        (["--ssh-key-file-path=/keys", "--ssh-port=2022"], "/keys", 0o644, 2022),
        (["--ssh-key-file-path=/root/.ssh"], "/root/.ssh", 0o600, 22),
    ],
)
def test_ssh_mounts_keys(arguments: list[str], folder: str, mode: int, port: int) -> None:
    found = made(task("a", 2, template=template(initContainers=[{"name": "i", "image": "x"}])), ssh=arguments)
    secret = objects(found)["Secret", "j-ssh"]
    assert secret["metadata"]["ownerReferences"] == OWNERS
    assert secret["stringData"] == {
        "config": (
            "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
            f"Host j-a-0\n  HostName j-a-0.j\n  Port {port}\nHost j-a-1\n  HostName j-a-1.j\n  Port {port}\n"
        )
    }
    spec = pod(found, "a")["spec"]
    (volume,) = spec["volumes"]
    assert (volume["name"], volume["secret"]["secretName"]) == ("j-ssh", "j-ssh")
    assert volume["secret"]["defaultMode"] == mode
    assert {item["key"]: item["path"] for item in volume["secret"]["items"]} == {
        name: f".ssh/{name}" for name in ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
    }
    for group in ("initContainers", "containers"):
        assert spec[group][0]["volumeMounts"] == [{"name": "j-ssh", "mountPath": folder, "subPath": ".ssh"}]


def test_ssh_keys_of_a_user_are_kept() -> None:
    found = made(ssh=["--ssh-private-key=secret", "--ssh-public-key=public"])
    secret = objects(found)["Secret", "j-ssh"]
    keys = {name: text for name, text in secret["stringData"].items() if name != "config"}
    assert keys == {"id_rsa": "secret", "id_rsa.pub": "public", "authorized_keys": "public"}
    assert with_key_pair(secret) == secret


def test_new_ssh_keys_are_a_pair() -> None:
    (first, second) = (with_key_pair(objects(made(ssh=[]))["Secret", "j-ssh"])["stringData"] for _ in range(2))
    assert first["id_rsa"] != second["id_rsa"]
    private = serialization.load_pem_private_key(first["id_rsa"].encode(), None)
    public = private.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    assert first["id_rsa.pub"] == first["authorized_keys"] == public.decode() + "\n"
    assert "config" in first


@pytest.mark.process
@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="needs ssh-keygen")
def test_ssh_reads_new_keys(tmp_path: Path) -> None:
    keys = with_key_pair(objects(made(ssh=[]))["Secret", "j-ssh"])["stringData"]
    file = tmp_path / "id_rsa"
    file.write_text(keys["id_rsa"])
    file.chmod(0o600)
    said = run_process(["ssh-keygen", "-y", "-f", file], capture_output=True, check=True, text=True)
    assert said.stdout.split()[:2] == keys["id_rsa.pub"].split()[:2]


def test_pytorch_worker_waits_for_master() -> None:
    flags = ["--wait-master-enabled", "--wait-master-timeout=60", "--wait-master-image=alpine", "--port=5"]
    found = made(*TRAINING, pytorch=flags)
    assert "initContainers" not in pod(found, "master")["spec"]
    (waiting,) = pod(found, "worker")["spec"]["initContainers"]
    assert (waiting["name"], waiting["image"], waiting["command"][:2]) == ("wait-for-master", "alpine", ["sh", "-c"])
    assert "nc -z j-master-0.j 5" in waiting["command"][2]
    assert '"$waited" -ge 60' in waiting["command"][2]


@pytest.mark.process
def test_script_that_waits_for_master_gives_up() -> None:
    found = made(*TRAINING, pytorch=["--wait-master-enabled", "--wait-master-timeout=0", "--port=5"])
    (waiting,) = pod(found, "worker")["spec"]["initContainers"]
    script = waiting["command"][2].replace("j-master-0.j", "127.0.0.1")
    ended = run_process(["sh", "-c", script], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (1, "127.0.0.1:5 does not accept connections after 0 s\n")


def test_ray_starts_head_and_workers() -> None:
    def container(name: str) -> Document:
        return {"spec": {"containers": [{"name": name, "image": "ray"}, {"name": "sidecar", "image": "x"}]}}

    found = made(
        task("head", template=container("head")),
        task("worker", 2, template=container("main")),
        ray=["--workerContainer=main", "--dashboardPort=8000"],
    )
    head, sidecar = pod(found, "head")["spec"]["containers"]
    assert head["command"] == [
        "sh",
        "-c",
        "ray start --head --block --dashboard-host=0.0.0.0 --port=6379 --dashboard-port=8000 "
        "--ray-client-server-port=10001",
    ]
    assert {port["name"]: port["containerPort"] for port in head["ports"]} == {
        "gcs": 6379,
        "dashboard": 8000,
        "client-server": 10001,
    }
    assert sidecar == {"name": "sidecar", "image": "x"}
    worker, _ = pod(found, "worker", 1)["spec"]["containers"]
    assert worker["command"] == ["sh", "-c", "ray start --block --address=j-head-0.j:6379"]
    assert "ports" not in worker
    service = objects(found)["Service", "j-head-svc"]
    assert service["metadata"]["ownerReferences"] == OWNERS
    assert service["spec"]["selector"]["volcano.sh/task-spec"] == "head"
    assert [port["port"] for port in service["spec"]["ports"]] == [6379, 8000, 10001]


@pytest.mark.parametrize(
    ("plugins", "name", "index", "rank"),
    [
        ({"hcclrank": []}, "worker", 1, "2"),
        ({"hcclrank": []}, "master", 0, "0"),
        ({"hcclrank": ["--master=worker", "--worker=master"]}, "master", 0, "2"),
        ({"hcclrank": ["--worker=none"]}, "worker", 0, None),
        ({"hcclrank": ["--worker=none"], "pytorch": []}, "worker", 0, "1"),  # as pytorch counts
    ],
)
def test_hcclrank_annotates_ranks(plugins: dict[str, list[str]], name: str, index: int, rank: str | None) -> None:
    found = pod(made(*TRAINING, **plugins), name, index)
    assert found["metadata"]["annotations"].get("hccl/rankIndex") == rank


def test_plugin_with_wrong_arguments_works_with_defaults() -> None:
    found = made(*TRAINING, pytorch=["--port=x"], horovod=[], env=["-x"])
    assert env(pod(found, "worker"))["MASTER_PORT"] == "23456"
    assert list(plugin_problems(found)) == [
        "spec.plugins.env[0]: has no effect; env has no argument '-x'; supported arguments: none",
        f"spec.plugins.horovod: has no effect; supported plugins: {', '.join(sorted(PLUGINS))}",
        "spec.plugins.pytorch[0]: Invalid value: 'x': must be a number; the plugin works with its defaults",
    ]
