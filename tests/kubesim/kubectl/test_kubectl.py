"""kubectl against ``pumice up``, and against a real Kubernetes API: the commands people type, and what they see.

One server with simulated nodes serves the whole module; every test works in a namespace of its own. Where there is
no kubectl the tests are skipped; in CI that is a failure.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.api_servers import pumice_up
from tests.support.kubectl import KUBECTL, POD, QUEUE, Namespace, bind, nodes, pod, rows, run
from tests.support.kubectl_clusters import Clusters
from tests.support.processes import started_process


@pytest.fixture(scope="module")
def kubeconfig(clusters: Clusters) -> Iterator[Path]:
    with clusters.up() as written:
        yield written


def test_get_prints_the_columns_people_know(kubectl: Namespace) -> None:
    assert kubectl("create", "-f", "-", given=POD) == "pod/web created\n"
    table = kubectl("get", "pods")
    assert table.splitlines()[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert rows(table)[0][:4] == ["web", "0/1", "Pending", "0"]
    wide = kubectl("get", "pods", "-o", "wide").splitlines()[0]
    assert wide.split("   ")[0] == "NAME" and "NOMINATED NODE" in wide and "READINESS GATES" in wide
    assert kubectl("get", "pods", "-o", "name") == "pod/web\n"
    assert kubectl("get", "pod", "web", "-o", "jsonpath={.spec.containers[0].image}") == "web:1"
    assert kubectl("get", "pod", "web", "-o", "custom-columns=N:.metadata.name,Q:.status.qosClass").split() == [
        "N",
        "Q",
        "web",
        "Burstable",
    ]
    as_yaml = yaml.safe_load(kubectl("get", "pod/web", "-o", "yaml"))
    assert as_yaml["kind"] == "Pod" and as_yaml["status"]["phase"] == "Pending"
    assert kubectl.object("pods")["kind"] == "List"
    assert kubectl("get", "pods", "--show-labels").splitlines()[1].endswith("app=web,tier=front")
    assert kubectl("get", "pods", "--no-headers", "-L", "tier").split()[-1] == "front"
    assert kubectl("get", "pods", "nothing", "--ignore-not-found") == ""
    assert kubectl.tried("get", "pod", "nothing") == (1, 'Error from server (NotFound): pods "nothing" not found\n')
    assert kubectl("get", "leases") == f"No resources found in {kubectl.name} namespace.\n"


def test_get_selects(kubectl: Namespace) -> None:
    for name, tier in (("a", "front"), ("b", "back"), ("c", "front")):
        kubectl(
            "create", "-f", "-", given=pod(name, labels={"app": "x", "tier": tier}, schedulerName=f"{tier}-scheduler")
        )
    assert kubectl("get", "pods", "-l", "tier=front", "-o", "name").split() == ["pod/a", "pod/c"]
    assert kubectl("get", "pods", "-l", "tier in (back),app", "-o", "name").split() == ["pod/b"]
    assert kubectl("get", "pods", "-l", "tier!=front", "-o", "name").split() == ["pod/b"]
    chosen = kubectl("get", "pods", "--field-selector", "metadata.name!=a,status.phase=Pending", "-o", "name")
    assert chosen.split() == ["pod/b", "pod/c"]
    assert kubectl("get", "pods", "--field-selector", "spec.schedulerName=back-scheduler", "-o", "name") == "pod/b\n"
    assert kubectl("get", "pods", "--sort-by", ".metadata.labels.tier", "-o", "name").split()[0] == "pod/b"
    everywhere = kubectl("get", "pods", "-A", "-l", "app=x")
    assert everywhere.splitlines()[0].split()[0] == "NAMESPACE"
    assert [row[:2] for row in rows(everywhere)] == [[kubectl.name, name] for name in "abc"]
    assert kubectl("get", "pods", "--chunk-size=1", "-o", "name").split() == ["pod/a", "pod/b", "pod/c"]


def test_get_watches(kubectl: Namespace, kubeconfig: Path) -> None:
    command = [KUBECTL or "", "--kubeconfig", str(kubeconfig), "-n", kubectl.name, "get", "pods", "-w", "-o", "name"]
    with started_process(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        kubectl("create", "-f", "-", given=pod("first"))
        assert watching.stdout.readline() == "pod/first\n"
        kubectl("label", "pod", "first", "seen=yes")
        assert watching.stdout.readline() == "pod/first\n"
        kubectl("create", "-f", "-", given=pod("second"))
        assert watching.stdout.readline() == "pod/second\n"


def test_get_watches_as_a_table(kubectl: Namespace, kubeconfig: Path) -> None:
    kubectl("create", "-f", "-", given=pod("a"))
    command = [KUBECTL or "", "--kubeconfig", str(kubeconfig), "-n", kubectl.name, "get", "pods", "-w"]
    with started_process(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().split()[:2] == ["NAME", "READY"]
        assert watching.stdout.readline().split()[:3] == ["a", "0/1", "Pending"]
        kubectl("delete", "pod", "a", "--wait=false")
        assert watching.stdout.readline().split()[0] == "a"


def test_create_makes_things(kubectl: Namespace) -> None:
    assert kubectl("create", "configmap", "settings", "--from-literal=a=1") == "configmap/settings created\n"
    assert kubectl("create", "secret", "generic", "key", "--from-literal=k=v") == "secret/key created\n"
    assert kubectl("get", "secret", "key", "-o", "jsonpath={.data.k}") == "dg=="
    assert kubectl("create", "serviceaccount", "worker") == "serviceaccount/worker created\n"
    assert kubectl("create", "quota", "limits", "--hard=pods=50").endswith("created\n")
    assert kubectl("create", "poddisruptionbudget", "guard", "--selector=app=x", "--min-available=1").endswith(
        "created\n"
    )
    assert kubectl("create", "job", "sum", "--image=busybox") == "job.batch/sum created\n"
    status, said = kubectl.tried("create", "configmap", "settings", "--from-literal=a=2")
    assert status == 1
    assert 'configmaps "settings" already exists' in said
    assert kubectl("create", "-f", "-", "--dry-run=server", given=POD) == "pod/web created (server dry run)\n"
    assert kubectl.tried("get", "pod", "web")[0] == 1
    assert kubectl("run", "shell", "--image=busybox", "--restart=Never") == "pod/shell created\n"
    generated = kubectl("create", "-f", "-", given={**POD, "metadata": {"generateName": "gen-"}})
    assert generated.startswith("pod/gen-") and len(generated.split()[0]) == len("pod/gen-") + 5


def test_create_says_what_is_wrong(kubectl: Namespace) -> None:
    status, said = kubectl.tried("create", "-f", "-", given=pod("x", containers=[]))
    assert status == 1
    assert 'The Pod "x" is invalid: spec.containers: Required value' in said
    status, said = kubectl.tried("create", "-f", "-", given=pod("x", nonsense=1))
    assert status == 1
    assert 'strict decoding error: unknown field "spec.nonsense"' in said
    status, said = kubectl.tried("create", "-f", "-", given={**POD, "apiVersion": "v7"})
    assert status == 1
    assert 'no matches for kind "Pod" in version "v7"' in said
    status, said = kubectl.tried("create", "-f", "-", given={**QUEUE, "spec": {"weight": "heavy"}})
    assert status == 1
    assert "spec.weight" in said


def test_apply_of_pods(kubectl: Namespace) -> None:
    assert kubectl("apply", "-f", "-", given=POD) == "pod/web created\n"
    assert kubectl("apply", "-f", "-", given=POD) == "pod/web unchanged\n"
    changed = pod("web", labels={"app": "web", "tier": "back"})
    assert kubectl("apply", "-f", "-", given=changed) == "pod/web configured\n"
    assert kubectl("get", "pod", "web", "-o", "jsonpath={.metadata.labels.tier}") == "back"
    assert kubectl("apply", "-f", "-", given=pod("web")) == "pod/web configured\n"
    assert kubectl("get", "pod", "web", "-o", "jsonpath={.metadata.labels.tier}") == ""
    status, said = kubectl.tried("apply", "-f", "-", given=pod("web", schedulerName="other"))
    assert status == 1
    assert "spec: Forbidden: pod updates may not change fields other than" in said


def test_apply_of_our_kinds(kubectl: Namespace) -> None:
    queue = {**QUEUE, "metadata": {"name": kubectl.name}}
    assert kubectl("apply", "-f", "-", given=queue) == f"queue.scheduling.volcano.sh/{kubectl.name} created\n"
    assert kubectl("apply", "-f", "-", given=queue) == f"queue.scheduling.volcano.sh/{kubectl.name} unchanged\n"
    heavier = {**queue, "spec": {"weight": 5, "parent": "root"}}
    assert kubectl("apply", "-f", "-", given=heavier) == f"queue.scheduling.volcano.sh/{kubectl.name} configured\n"
    assert kubectl("get", "queue", kubectl.name, "-o", "jsonpath={.spec.weight} {.spec.reclaimable}") == "5 true"
    assert kubectl("get", "q", kubectl.name).splitlines()[1].split()[0] == kubectl.name
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "gang"},
        "spec": {"minMember": 2, "queue": kubectl.name},
    }
    assert kubectl("apply", "-f", "-", given=group) == "podgroup.scheduling.volcano.sh/gang created\n"
    assert kubectl("get", "pg", "gang", "-o", "jsonpath={.spec.minMember}") == "2"
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"minAvailable": 1, "tasks": [{"name": "worker", "replicas": 2, "template": {"spec": POD["spec"]}}]},
    }
    assert kubectl("apply", "-f", "-", given=job) == "job.batch.volcano.sh/train created\n"
    assert kubectl("get", "vcjob", "train", "-o", "jsonpath={.spec.tasks[0].replicas} {.spec.maxRetry}") == "2 3"
    command = {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": "close"},
        "action": "CloseQueue",
        "target": {"apiVersion": QUEUE["apiVersion"], "kind": "Queue", "name": kubectl.name, "uid": "u"},
    }
    assert kubectl("create", "-f", "-", given=command) == "command.bus.volcano.sh/close created\n"


def test_apply_on_the_server(kubectl: Namespace) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s"}, "data": {"a": "1", "b": "2"}}
    assert kubectl(*apply, given=settings) == "configmap/s serverside-applied\n"
    assert kubectl(*apply, given={**settings, "data": {"a": "1"}}) == "configmap/s serverside-applied\n"
    assert kubectl("get", "configmap", "s", "-o", "jsonpath={.data}") == '{"a":"1"}'
    other = {**settings, "data": {"a": "9"}}
    status, said = kubectl.tried(*apply, "--field-manager=other", given=other)
    assert status == 1
    assert 'conflict with "kubectl": .data.a' in said
    assert "--force-conflicts" in said  # kubectl knows what kind of refusal it is
    kubectl(*apply, "--field-manager=other", "--force-conflicts", given=other)
    fields = kubectl(
        "get", "configmap", "s", "-o", "jsonpath={.metadata.managedFields[*].manager}", "--show-managed-fields"
    )
    assert fields == "other"
    # What kubectl has applied by itself before, it takes over.
    queue = {**QUEUE, "metadata": {"name": kubectl.name}}
    kubectl("apply", "-f", "-", given=queue)
    kubectl(*apply, given={**queue, "spec": {"weight": 7}})
    assert kubectl("get", "queue", kubectl.name, "-o", "jsonpath={.spec.weight}") == "7"
    assert kubectl.tried("diff", "--server-side", "-f", "-", given={**queue, "spec": {"weight": 8}})[0] == 1


def test_diff(kubectl: Namespace) -> None:
    queue = {**QUEUE, "metadata": {"name": kubectl.name}}
    kubectl("apply", "-f", "-", given=queue)
    assert kubectl.tried("diff", "-f", "-", given=queue) == (0, "")
    status, said = kubectl.tried("diff", "-f", "-", given={**queue, "spec": {"weight": 9}})
    assert status == 1
    assert "-  weight: 3" in said and "+  weight: 9" in said
    status, said = kubectl.tried("diff", "-f", "-", given=POD)
    assert status == 1
    assert "+  - image: web:1" in said


def test_patch_and_edit(kubectl: Namespace) -> None:
    kubectl("create", "configmap", "settings", "--from-literal=a=1", "--from-literal=b=2")
    patch = [
        ("merge", '{"data":{"a":"3","b":null}}', {"a": "3"}),
        ("json", '[{"op":"add","path":"/data/c","value":"4"}]', {"a": "3", "c": "4"}),
        ("strategic", '{"data":{"d":"5"}}', {"a": "3", "c": "4", "d": "5"}),
    ]
    for kind, text, expected in patch:
        assert kubectl("patch", "configmap", "settings", f"--type={kind}", "-p", text) == "configmap/settings patched\n"
        assert kubectl.object("configmap", "settings")["data"] == expected
    said = kubectl("patch", "configmap", "settings", "-p", '{"data":{"d":"5"}}')
    assert said == "configmap/settings patched (no change)\n"
    status, said = kubectl.tried(
        "patch", "configmap", "settings", "--type=json", "-p", '[{"op":"remove","path":"/data/z"}]'
    )
    assert status == 1
    assert "The request is invalid" in said
    assert (
        kubectl("edit", "configmap", "settings", KUBE_EDITOR='sed -i \'s/"5"/"6"/\'') == "configmap/settings edited\n"
    )
    assert kubectl.object("configmap", "settings")["data"]["d"] == "6"
    kubectl("create", "-f", "-", given=POD)
    assert kubectl("set", "image", "pod/web", "main=web:2") == "pod/web image updated\n"
    assert kubectl("get", "pod", "web", "-o", "jsonpath={.spec.containers[0].image}") == "web:2"
    replaced = kubectl.object("configmap", "settings") | {"data": {"only": "this"}}
    assert kubectl("replace", "-f", "-", given=replaced) == "configmap/settings replaced\n"
    status, said = kubectl.tried("replace", "-f", "-", given=replaced)
    assert status == 1
    assert "the object has been modified" in said


def test_label_and_annotate(kubectl: Namespace) -> None:
    kubectl("create", "-f", "-", given=POD)
    assert kubectl("label", "pod", "web", "colour=red") == "pod/web labeled\n"
    status, said = kubectl.tried("label", "pod", "web", "colour=blue")
    assert status == 1
    assert "already has a value (red)" in said
    assert kubectl("label", "pod", "web", "colour=blue", "--overwrite") == "pod/web labeled\n"
    assert kubectl("label", "pod", "web", "colour-") == "pod/web unlabeled\n"
    assert kubectl("label", "pods", "--all", "every=one") == "pod/web labeled\n"
    assert kubectl("annotate", "pod", "web", "note=hello there") == "pod/web annotated\n"
    metadata = kubectl.object("pod", "web")["metadata"]
    assert metadata["labels"] == {"app": "web", "tier": "front", "every": "one"}
    assert metadata["annotations"]["note"] == "hello there"


def test_delete_and_its_cascades(kubectl: Namespace) -> None:
    job = ["create", "job", "--image=busybox", "--"]
    for name in ("background", "foreground", "orphan"):
        kubectl(*job[:2], name, *job[2:3])
    kubectl.until(lambda: len(kubectl.object("pods")["items"]) == 3)
    pods = {p["metadata"]["labels"]["job-name"]: p["metadata"]["name"] for p in kubectl.object("pods")["items"]}
    assert kubectl("delete", "job", "background").startswith('job.batch "background" deleted')
    kubectl.until(lambda: kubectl.tried("get", "pod", pods["background"])[0] == 1)
    assert kubectl("delete", "job", "foreground", "--cascade=foreground").startswith('job.batch "foreground" deleted')
    assert kubectl.tried("get", "pod", pods["foreground"])[0] == 1
    assert kubectl("delete", "job", "orphan", "--cascade=orphan").startswith('job.batch "orphan" deleted')
    left = kubectl.object("pod", pods["orphan"])
    assert not left["metadata"].get("ownerReferences") and not left["metadata"].get("deletionTimestamp")
    kubectl("create", "configmap", "a")
    kubectl("create", "configmap", "b")
    assert kubectl("delete", "configmap", "a", "b", "c", "--ignore-not-found").count("deleted") == 2
    kubectl("create", "-f", "-", given=pod("x", nodeName="node-1"))
    assert kubectl.tried("delete", "pod", "x", "--force", "--grace-period=0")[0] == 0
    assert kubectl.tried("get", "pod", "x")[0] == 1
    assert "deleted" in kubectl("delete", "pods", "--all", "--now")
    assert kubectl.object("pods")["items"] == []


def test_delete_a_namespace(kubectl: Namespace) -> None:
    kubectl("create", "-f", "-", given=POD)
    kubectl("create", "configmap", "c")
    assert f'namespace "{kubectl.name}" deleted' in kubectl("delete", "namespace", kubectl.name)
    assert kubectl.tried("get", "namespace", kubectl.name)[0] == 1
    assert json.loads(kubectl("get", "configmaps,pods", "-o", "json"))["items"] == []


def test_simulated_pods_run_and_log(kubectl: Namespace, clusters: Clusters) -> None:
    node = nodes(kubectl)[0]
    kubectl("create", "-f", "-", given=pod("short", annotations={"pumice.dev/run-seconds": "5"}, restartPolicy="Never"))
    kubectl("create", "-f", "-", given=pod("long", restartPolicy="Never"))
    for name in ("short", "long"):
        bind(kubectl, name, node)
    assert kubectl("wait", "pod/short", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=20s").endswith(
        "condition met\n"
    )
    assert kubectl("wait", "pod/long", "--for=condition=Ready", "--timeout=20s") == "pod/long condition met\n"
    assert [row[:3] for row in rows(kubectl("get", "pods"))] == [
        ["long", "1/1", "Running"],
        ["short", "0/1", "Completed"],
    ]
    assert kubectl("get", "pod", "long", "-o", "wide").splitlines()[1].split()[6] == node
    status, said = kubectl.tried("logs", "long", "-c", "other")
    assert status == 1
    assert "container other is not valid for pod long" in said
    if clusters.has_kubelets:
        assert kubectl("logs", "short") != "" and kubectl("logs", "long", "-c", "main") != ""
    assert kubectl("delete", "pod", "long").startswith('pod "long" deleted')
    assert kubectl.tried("get", "pod", "long")[0] == 1


def test_describe(kubectl: Namespace) -> None:
    node = nodes(kubectl)[0]
    kubectl("create", "-f", "-", given=pod("web", serviceAccountName="default"))
    bind(kubectl, "web", node)
    kubectl("wait", "pod/web", "--for=condition=Ready", "--timeout=20s")
    said = kubectl("describe", "pod", "web")
    for expected in ("Name:             web", "Status:           Running", "Image:          web:1", "Events:"):
        assert expected in said
    said = kubectl("describe", "node", node)
    for expected in ("Conditions:", "Capacity:", "Non-terminated Pods:", f"  {kubectl.name}", "Allocated resources:"):
        assert expected in said
    kubectl("apply", "-f", "-", given={**QUEUE, "metadata": {"name": kubectl.name}})
    assert "Weight:" in kubectl("describe", "queue", kubectl.name)
    assert "Status:       Active" in kubectl("describe", "namespace", kubectl.name)


def test_wait(kubectl: Namespace) -> None:
    status, said = kubectl.tried("wait", "pod/none", "--for=condition=Ready", "--timeout=1s")
    assert status == 1
    assert 'pods "none" not found' in said
    kubectl("create", "-f", "-", given=POD)
    status, said = kubectl.tried("wait", "pod/web", "--for=condition=Ready", "--timeout=1s")
    assert status == 1
    assert "timed out waiting for the condition on pods/web" in said
    kubectl("delete", "pod", "web", "--wait=false")
    assert kubectl.tried("wait", "pod/web", "--for=delete", "--timeout=10s")[0] == 0
    crd = kubectl("wait", "crd/queues.scheduling.volcano.sh", "--for=condition=Established", "--timeout=5s")
    assert crd.endswith("condition met\n")


def test_cordon_and_drain(kubectl: Namespace) -> None:
    node = nodes(kubectl)[2]
    assert kubectl("cordon", node) == f"node/{node} cordoned\n"
    assert "Ready,SchedulingDisabled" in kubectl("get", "node", node)
    assert kubectl("uncordon", node) == f"node/{node} uncordoned\n"
    assert kubectl("taint", "node", node, "k=v:NoSchedule") == f"node/{node} tainted\n"
    assert kubectl("taint", "node", node, "k-") == f"node/{node} untainted\n"
    kubectl("create", "-f", "-", given=POD)
    bind(kubectl, "web", node)
    kubectl("wait", "pod/web", "--for=condition=Ready", "--timeout=20s")
    said = kubectl("drain", node, "--force", "--timeout=30s")
    assert f"evicting pod {kubectl.name}/web" in said and f"node/{node} drained" in said
    assert kubectl.tried("get", "pod", "web")[0] == 1
    kubectl("uncordon", node)


def test_drain_respects_a_budget(kubectl: Namespace) -> None:
    node = nodes(kubectl)[1]
    kubectl("create", "poddisruptionbudget", "guard", "--selector=app=web", "--min-available=1")
    kubectl("create", "-f", "-", given=POD)
    bind(kubectl, "web", node)
    kubectl("wait", "pod/web", "--for=condition=Ready", "--timeout=20s")
    kubectl.until(lambda: kubectl("get", "pdb", "guard", "-o", "jsonpath={.status.currentHealthy}") == "1")
    status, said = kubectl.tried("drain", node, "--force", "--timeout=2s")
    assert status == 1
    assert "Cannot evict pod as it would violate the pod's disruption budget" in said
    kubectl("uncordon", node)


def test_auth_can_i(kubectl: Namespace) -> None:
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert kubectl("auth", "can-i", "get", "/version") == "yes\n"
    assert kubectl("auth", "can-i", "delete", "queues.scheduling.volcano.sh", "-A") == "yes\n"


def test_api_resources(kubectl: Namespace) -> None:
    listed = {tuple(line.split()[-2:]): line.split() for line in kubectl("api-resources").splitlines()[1:]}
    assert listed["true", "Pod"][:3] == ["pods", "po", "v1"]
    assert listed["false", "Queue"][2] == "scheduling.volcano.sh/v1beta1"
    for name in ("Namespace", "Node", "PriorityClass", "CustomResourceDefinition"):
        assert ("false", name) in listed
    for name in ("Event", "ConfigMap", "Secret", "ServiceAccount", "Lease", "PodDisruptionBudget", "ResourceQuota"):
        assert ("true", name) in listed
    wide = kubectl("api-resources", "-o", "wide", "--api-group=scheduling.volcano.sh", "--no-headers").splitlines()
    verbs = {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
    assert [set(line.split()[-1].split(",")) for line in wide] == [verbs, verbs]
    assert kubectl("api-resources", "--namespaced=false", "-o", "name").split().count("nodes") == 1
    assert {"v1", "batch/v1", "scheduling.volcano.sh/v1beta1"} <= set(kubectl("api-versions").split())


def test_get_raw(kubectl: Namespace) -> None:
    assert kubectl("get", "--raw", "/readyz") == "ok"
    assert json.loads(kubectl("get", "--raw", "/version"))["major"] == "1"
    assert json.loads(kubectl("get", "--raw", "/api/v1/nodes?limit=1"))["kind"] == "NodeList"
    status, said = kubectl.tried("get", "--raw", "/nonsense")
    assert status == 1
    assert "NotFound" in said
    assert "Server Version: v1." in kubectl("version")


def test_events(kubectl: Namespace) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "web.1", "namespace": kubectl.name},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "web", "namespace": kubectl.name},
        "reason": "Tried",
        "message": "it was tried",
        "type": "Warning",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "source": {"component": "test"},
    }
    kubectl("create", "-f", "-", given=event)
    said = kubectl("get", "events", "--field-selector", "involvedObject.name=web")
    assert said.splitlines()[0].split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert said.splitlines()[1].split()[1:] == ["Warning", "Tried", "pod/web", "it", "was", "tried"]
    assert "it was tried" in kubectl("events", "--types=Warning")
    assert "it was tried" in kubectl("events", "--for", "pod/web")


def test_explain(kubectl: Namespace) -> None:
    said = kubectl("explain", "pod.spec.containers")
    assert "KIND:       Pod" in said and "FIELD: containers <[]" in said and "imagePullPolicy" in said
    said = kubectl("explain", "queue.spec")
    assert "KIND:       Queue" in said and "weight" in said and "<integer>" in said
    status, said = kubectl.tried("explain", "pod.nonsense")
    assert status == 1
    assert 'field "nonsense" does not exist' in said


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on PATH")
def test_kubectl_authenticates_with_kubeconfig_token_over_tls() -> None:
    """kubectl sends no token over plain HTTP, so a token has to bring TLS, and the kubeconfig its authority."""
    with pumice_up("--nodes", "0", token="only-this-one") as (_, written):
        assert run(written, "get", "namespace", "default", "-o", "name") == (0, "namespace/default\n")
        status, said = run(written, "--token=another", "get", "namespace", "default")
        assert status == 1
        assert "You must be logged in to the server (Unauthorized)" in said
