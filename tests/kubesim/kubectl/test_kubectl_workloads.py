"""kubectl with Deployments and ReplicaSets, against ``pumice up`` with everything that belongs to it, and a real one.

On a real Kubernetes API they are the work of kube-controller-manager; scheduler and nodes are ours on both. One cluster
serves the whole module; every test works in a namespace of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.kubectl import Namespace, rows
from tests.support.kubectl_clusters import Clusters, embedded_only

WAIT = "--timeout=25s"


@pytest.fixture(scope="module")
def kubeconfig(clusters: Clusters) -> Iterator[Path]:
    with clusters.up(everything=True) as written:
        yield written


def deployment(image: str = "web:1", replicas: int = 3, **spec: Any) -> dict[str, Any]:
    labels = {"app": "web"}
    pod = {"schedulerName": "pumice", "containers": [{"name": "main", "image": image}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    whole = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": whole}


def images(kubectl: Namespace) -> set[str]:
    return set(kubectl("get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].image}").split())


def test_apply_and_watch_it_come_up(kubectl: Namespace) -> None:
    assert kubectl("apply", "-f", "-", given=deployment()) == "deployment.apps/web created\n"
    assert 'deployment "web" successfully rolled out' in kubectl("rollout", "status", "deployment/web", WAIT)
    table = kubectl("get", "deployments")
    assert table.splitlines()[0].split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert rows(table)[0][:4] == ["web", "3/3", "3", "3"]
    table = kubectl("get", "rs")
    assert table.splitlines()[0].split() == ["NAME", "DESIRED", "CURRENT", "READY", "AGE"]
    assert rows(table)[0][1:4] == ["3", "3", "3"]
    wide = kubectl("get", "deploy", "-o", "wide").splitlines()
    assert wide[0].split()[-3:] == ["CONTAINERS", "IMAGES", "SELECTOR"] and wide[1].split()[-3:] == [
        "main",
        "web:1",
        "app=web",
    ]
    assert kubectl("apply", "-f", "-", given=deployment()) == "deployment.apps/web unchanged\n"
    assert "condition met" in kubectl("wait", "--for=condition=Available", "deployment/web", WAIT)
    described = kubectl("describe", "deployment", "web")
    assert "3 desired | 3 updated | 3 total | 3 available | 0 unavailable" in described
    assert "NewReplicaSetAvailable" in described and "ScalingReplicaSet" in described
    everything = kubectl("get", "all", "-o", "name").split()
    assert [name.split("/")[0] for name in everything] == ["pod"] * 3 + ["deployment.apps", "replicaset.apps"]


def test_set_image_history_and_undo(kubectl: Namespace) -> None:
    kubectl("apply", "-f", "-", given=deployment())
    kubectl("rollout", "status", "deployment/web", WAIT)
    assert kubectl("set", "image", "deployment/web", "main=web:2") == "deployment.apps/web image updated\n"
    kubectl("annotate", "deployment/web", "kubernetes.io/change-cause=the second")
    said = kubectl("rollout", "status", "deployment/web", WAIT)
    assert 'deployment "web" successfully rolled out' in said
    kubectl.until(lambda: images(kubectl) == {"web:2"})
    history = rows(kubectl("rollout", "history", "deployment/web"))
    assert [row[0] for row in history if row and row[0].isdigit()] == ["1", "2"]
    assert "web:1" in kubectl("rollout", "history", "deployment/web", "--revision=1")
    assert kubectl("rollout", "undo", "deployment/web") == "deployment.apps/web rolled back\n"
    kubectl("rollout", "status", "deployment/web", WAIT)
    kubectl.until(lambda: images(kubectl) == {"web:1"})
    history = rows(kubectl("rollout", "history", "deployment/web"))
    assert [row[0] for row in history if row and row[0].isdigit()] == ["2", "3"]  # the first is the third now
    assert kubectl("rollout", "undo", "deployment/web", "--to-revision=2").endswith("rolled back\n")
    kubectl.until(lambda: images(kubectl) == {"web:2"})
    status, said = kubectl.tried("rollout", "undo", "deployment/web", "--to-revision=77")
    assert status == 1 and "unable to find specified revision 77" in said


def test_pause_resume_and_restart(kubectl: Namespace) -> None:
    kubectl("apply", "-f", "-", given=deployment(replicas=2))
    kubectl("rollout", "status", "deployment/web", WAIT)
    assert kubectl("rollout", "pause", "deployment/web") == "deployment.apps/web paused\n"
    kubectl("set", "image", "deployment/web", "main=web:2")
    kubectl("set", "env", "deployment/web", "COLOUR=blue")
    assert len(rows(kubectl("get", "rs"))) == 1
    assert kubectl("rollout", "resume", "deployment/web") == "deployment.apps/web resumed\n"
    kubectl("rollout", "status", "deployment/web", WAIT)
    kubectl.until(lambda: images(kubectl) == {"web:2"})
    assert len(rows(kubectl("get", "rs"))) == 2  # both changes at once
    before = set(kubectl("get", "pods", "-o", "name").split())
    assert kubectl("rollout", "restart", "deployment/web") == "deployment.apps/web restarted\n"
    kubectl("rollout", "status", "deployment/web", WAIT)
    kubectl.until(lambda: not before & set(kubectl("get", "pods", "-o", "name").split()))


def test_scale(kubectl: Namespace) -> None:
    kubectl("apply", "-f", "-", given=deployment(replicas=1))
    kubectl("rollout", "status", "deployment/web", WAIT)
    assert kubectl("scale", "deployment/web", "--replicas=4") == "deployment.apps/web scaled\n"
    kubectl("rollout", "status", "deployment/web", WAIT)
    assert len(kubectl("get", "pods", "-o", "name").split()) == 4
    status, said = kubectl.tried("scale", "deployment/web", "--current-replicas=9", "--replicas=1")
    assert status == 1 and "Expected replicas to be 9, was 4" in said
    assert kubectl("scale", "deployment/web", "--current-replicas=4", "--replicas=0").endswith("scaled\n")
    kubectl.until(lambda: kubectl("get", "pods", "-o", "name") == "")
    table = kubectl("get", "deployment", "web", "--subresource=scale")
    assert table.splitlines()[0].split() == ["NAME", "DESIRED", "AVAILABLE", "AGE"]
    assert rows(table)[0][:2] == ["web", "0"]
    patch = '{"spec":{"replicas":2}}'
    assert kubectl("patch", "deployment", "web", "--subresource=scale", "--type=merge", "-p", patch).endswith(
        "patched\n"
    )
    assert kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "2"
    status, said = kubectl.tried("scale", "deployment/web", "--replicas=-1")
    assert status == 1
    alone = deployment(replicas=1) | {"kind": "ReplicaSet", "metadata": {"name": "alone"}}
    alone["spec"] = {**alone["spec"], "selector": {"matchLabels": {"app": "alone"}}}
    alone["spec"]["template"]["metadata"]["labels"] = {"app": "alone"}
    kubectl("create", "-f", "-", given=alone)
    assert kubectl("scale", "rs/alone", "--replicas=2") == "replicaset.apps/alone scaled\n"
    kubectl.until(lambda: len(kubectl("get", "pods", "-l", "app=alone", "-o", "name").split()) == 2)


def test_create_deployment_and_what_is_left_of_it(kubectl: Namespace) -> None:
    """It is sent in protobuf."""
    made = kubectl("create", "deployment", "web", "--image=web:1", "--replicas=2", "--port=80")
    assert made == "deployment.apps/web created\n"
    one = kubectl.object("deployment", "web")
    assert one["spec"]["replicas"] == 2
    assert one["spec"]["selector"] == {"matchLabels": {"app": "web"}}
    (container,) = one["spec"]["template"]["spec"]["containers"]
    assert container["name"] == "web" and container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    ours = '{"spec":{"template":{"spec":{"schedulerName":"pumice"}}}}'
    assert kubectl("patch", "deployment", "web", "-p", ours) == "deployment.apps/web patched\n"
    kubectl("rollout", "status", "deployment/web", WAIT)
    kubectl.until(lambda: len(kubectl("get", "pods", "-o", "name").split()) == 2)
    assert kubectl("delete", "deployment", "web", "--cascade=orphan").startswith('deployment.apps "web" deleted')
    assert kubectl("get", "deployments", "-o", "name") == ""
    left = kubectl("get", "rs", "-o", "name").split()
    assert len(left) == 2  # one of each template
    assert len(kubectl("get", "pods", "-o", "name").split()) == 2
    kubectl("delete", *left, "--cascade=foreground")
    assert kubectl("get", "rs,pods", "-o", "name") == ""


def test_delete_with_all_that_belongs_to_it(kubectl: Namespace) -> None:
    for cascade in ("foreground", "background"):
        kubectl("apply", "-f", "-", given=deployment())
        kubectl("rollout", "status", "deployment/web", WAIT)
        kubectl("delete", "deployment", "web", f"--cascade={cascade}")
        if cascade == "background":
            kubectl.until(lambda: kubectl("get", "rs,pods", "-o", "name") == "")
        assert kubectl("get", "deployments,rs,pods", "-o", "name") == ""


def test_apply_by_the_server(kubectl: Namespace) -> None:
    said = kubectl("apply", "--server-side", "-f", "-", given=deployment())
    assert said == "deployment.apps/web serverside-applied\n"
    kubectl("scale", "deployment/web", "--replicas=5")
    status, said = kubectl.tried("apply", "--server-side", "-f", "-", given=deployment())
    assert status == 1 and ".spec.replicas" in said and 'conflict with "kubectl" with subresource "scale"' in said
    forced = kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=deployment())
    assert forced == "deployment.apps/web serverside-applied\n"
    assert kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "3"
    same = kubectl("diff", "--server-side", "-f", "-", given=deployment())
    assert same == ""


def test_refusals_are_in_words(kubectl: Namespace) -> None:
    wrong = deployment(strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}})
    status, said = kubectl.tried("apply", "-f", "-", given=wrong)
    assert status == 1
    assert "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'" in said
    kubectl("apply", "-f", "-", given=deployment(paused=True))
    other = deployment(selector={"matchLabels": {"app": "other"}})
    other["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    status, said = kubectl.tried("apply", "-f", "-", given=other)
    assert status == 1 and "field is immutable" in said


def test_kubectl_autoscale_fails_with_unserved_resource(kubectl: Namespace, clusters: Clusters) -> None:
    embedded_only(clusters, "a real API server serves it")
    kubectl("create", "deployment", "web", "--image=web:1")
    status, said = kubectl.tried("autoscale", "deployment", "web", "--max=5")
    assert status == 1 and "the server could not find the requested resource" in said


def test_kubectl_expose_makes_a_service(kubectl: Namespace) -> None:
    kubectl("create", "deployment", "exposed", "--image=web:1")
    assert kubectl("expose", "deployment", "exposed", "--port=80") == "service/exposed exposed\n"
    spec = kubectl.object("service", "exposed")["spec"]
    assert (spec["selector"], spec["ports"]) == (
        {"app": "exposed"},
        [{"port": 80, "protocol": "TCP", "targetPort": 80}],
    )


def test_explain_workloads(kubectl: Namespace) -> None:
    said = kubectl("explain", "deployment.spec.strategy")
    assert "KIND:       Deployment" in said and "rollingUpdate" in said
    said = kubectl("explain", "deployment.spec.strategy.rollingUpdate.maxSurge")
    assert "FIELD: maxSurge" in said
    assert "readyReplicas" in kubectl("explain", "rs.status")
    resources = kubectl("api-resources", "--api-group=apps", "--no-headers")
    listed = [line.split()[:2] for line in resources.splitlines()]
    assert ["deployments", "deploy"] in listed and ["replicasets", "rs"] in listed
