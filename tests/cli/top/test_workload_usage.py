"""Usage by job, user, namespace and node, and what a user with few rights sees of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import pytest

from kubebase.resource_vector import Registry
from pumice.cli.text_table import display_width
from pumice.cli.top.live_screen import LiveScreen
from pumice.cli.top.queue_usage import ClusterUsage, cluster_usage
from pumice.cli.top.usage_source import UsageSource
from pumice.cli.top.usage_table import cluster_summary, usage_lines, usage_values
from pumice.cli.top.workload_table import workload_lines, workload_values
from pumice.cli.top.workload_usage import PodRequests, View
from pumice.kube.resources import NODES, POD_GROUPS, PODS, QUEUES, Resource

GPU = "nvidia.com/gpu"
Object = dict[str, Any]


def node(name: str, gpus: int = 8, **spec: Any) -> Object:
    status = {"allocatable": {"cpu": "32", GPU: str(gpus)}, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name}, "spec": spec, "status": status}


def queue(name: str, parent: str = "") -> Object:
    return {"metadata": {"name": name}, "spec": {"parent": parent} if parent else {}, "status": {"state": "Open"}}


def group(
    name: str, queue_name: str, *, namespace: str = "x", user: str = "ann", job: str = "", phase: str = "Running"
) -> Object:
    about: Object = {"name": name, "namespace": namespace, "annotations": {"volcano.sh/user": user}}
    if job:
        about["ownerReferences"] = [{"kind": "Job", "name": job}]
    return {"metadata": about, "spec": {"queue": queue_name}, "status": {"phase": phase}}


def pod(
    name: str,
    job: str = "",
    on: str = "",
    *,
    gpus: int = 2,
    namespace: str = "x",
    scheduler: str = "pumice",
    **more: Any,
) -> Object:
    about: Object = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": "1", "annotations": {}}
    if job:
        about["annotations"]["scheduling.k8s.io/group-name"] = job
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", GPU: str(gpus)}}}]
    spec = {"schedulerName": scheduler, "containers": containers, **({"nodeName": on} if on else {})}
    return {"metadata": about, "spec": spec, "status": {"phase": "Running" if on else "Pending"}, **more}


CLUSTER: Mapping[Resource[Any], list[Object]] = {
    NODES: [node("a"), node("b", unschedulable=True)],
    QUEUES: [queue("root"), queue("team", "root"), queue("vision", "team"), queue("serving", "root")],
    POD_GROUPS: [
        group("train-1234", "vision", job="train"),
        group("infer", "serving", namespace="y", user="bob"),
        group("done", "vision", phase="Completed"),
        group("new", "vision", phase="Pending"),
    ],
    PODS: [
        pod("t0", "train-1234", "a", gpus=4),
        pod("t1", "train-1234"),
        pod("t2", "train-1234"),
        pod("i0", "infer", "b", namespace="y"),
        pod("d0", "done", "a", status={"phase": "Succeeded"}),
        pod("other", on="a", gpus=0, scheduler="default-scheduler"),
    ],
}


def read(denied: Mapping[Resource[Any], bool] | None = None, *, requested: bool = False) -> ClusterUsage:
    """What a user sees in namespace x; ``denied``: of all namespaces (False), or nowhere (True)."""

    def objects(resource: Resource[Any], namespace: str) -> list[Object] | None:
        if denied is not None and resource in denied and (not namespace or denied[resource]):
            return None
        found = CLUSTER[resource]
        return [one for one in found if one["metadata"]["namespace"] == namespace] if namespace else found

    return UsageSource(objects, "x", requested=requested).read()


def lines(found: ClusterUsage, view: View, columns: int = 100, **how: Any) -> list[str]:
    return [click.unstyle(line) for line in workload_lines(found, view, columns, **how)]


def cells(found: ClusterUsage, view: View) -> list[list[str]]:
    return [[part for part in line.split() if "█" not in part and "#" not in part] for line in lines(found, view)[1:]]


def test_jobs_by_share_then_waiting_pods():
    assert cells(read(), View.JOBS) == [
        ["x/train", "50%", "vision", "ann", "Running", "1", "2"],
        ["y/infer", "25%", "serving", "bob", "Running", "1", "0"],
        ["x/new", "0%", "vision", "ann", "Pending", "0", "0"],
    ]


def test_users_and_namespaces_count_our_pods():
    assert cells(read(), View.USERS) == [["ann", "50%", "1", "1", "2"], ["bob", "25%", "1", "1", "0"]]
    assert cells(read(), View.NAMESPACES) == [["x", "50%", "1", "1", "2"], ["y", "25%", "1", "1", "0"]]


def test_nodes_count_all_pods_against_themselves():
    assert cells(read(), View.NODES) == [
        ["a", "50%", "Ready", "2", "2/32", "0/0", "4/8"],
        ["b", "25%", "Ready,SchedulingDisabled", "1", "1/32", "0/0", "2/8"],
    ]


def test_queues_count_waiting_pods_of_their_subtree():
    rows = {row.name: row.waiting for row in read().rows}
    assert rows == {"root": 2, "team": 2, "vision": 2, "serving": 0}
    heading, root, *_ = usage_lines(read(), 100)
    assert click.unstyle(heading).split()[-1] == "WAIT" and click.unstyle(root).split()[-1] == "2"
    assert usage_values(read())["queues"][0]["waitingPods"] == 2


def test_devices_are_in_the_summary_while_idle():
    assert cluster_summary(cluster_usage(CLUSTER[QUEUES], CLUSTER[NODES])).endswith(f"{GPU} 0 of 8 (0%)")


def test_rights_in_one_namespace_show_its_jobs():
    found = read({NODES: True, PODS: False, POD_GROUPS: False})
    assert [row[0] for row in cells(found, View.JOBS)] == ["x/train", "x/new"]
    assert cells(found, View.NODES) == []
    assert "jobs, users and waiting pods are those of namespace x" in found.notes[-1]
    screen = LiveScreen("here", wide=False, view=View.JOBS)
    assert "you may not list" in screen.lines(found, 200, 20, "now")[-1]


def test_no_right_to_list_pods_leaves_the_queues():
    found = read({PODS: True, POD_GROUPS: True})
    assert found.workloads is None and [row.waiting for row in found.rows] == [None] * 4
    assert "WAIT" not in click.unstyle(usage_lines(found, 100)[0])
    assert len(lines(found, View.JOBS)) == 1
    screen = LiveScreen("here", wide=False, view=View.JOBS)
    assert screen.lines(found, 100, 20, "now")[-1].startswith("you may not list pods")


def test_a_requested_namespace_restricts_jobs_without_a_note():
    found = read(requested=True)
    assert [row[0] for row in cells(found, View.JOBS)] == ["x/train", "x/new"] and found.notes == []


def test_keys_change_the_view_and_scroll_to_its_top():
    screen = LiveScreen("here", wide=False)
    screen.first_row = 3
    screen.handle_key("next view", 10, 5)
    assert (screen.view, screen.first_row) == (View.JOBS, 0)
    screen.handle_key("nodes", 10, 5)
    assert screen.view is View.NODES and "pumice top nodes" in click.unstyle(screen.lines(read(), 100, 20, "now")[0])
    screen.handle_key("next view", 10, 5)
    assert screen.view is View.QUEUES


@pytest.mark.parametrize("view", [view for view in View if view is not View.QUEUES])
@pytest.mark.parametrize("wide", [False, True])
def test_lines_fit_a_terminal_of_100_columns(view: View, wide: bool) -> None:
    assert max(display_width(line) for line in lines(read(), view, 100, wide=wide)) <= 100


def test_values_for_programs():
    found = workload_values(read(), View.JOBS)["jobs"][0]
    assert found == {
        "name": "x/train",
        "used": 0.5,
        "runningPods": 1,
        "waitingPods": 2,
        "queue": "vision",
        "user": "ann",
        "phase": "Running",
        "allocated": {"cpu": "1", GPU: "4"},
    }
    assert workload_values(read(), View.NODES)["nodes"][0]["allocatable"] == {"cpu": "32", GPU: "8"}


def test_a_request_is_read_once_for_each_version():
    requests = PodRequests(Registry())
    one = pod("a", gpus=1)
    first = requests.of(one)
    one["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "5"
    assert requests.of(one) == first
    one["metadata"]["resourceVersion"] = "2"
    assert requests.of(one) != first
    assert requests.of({"metadata": {"uid": "b"}, "spec": {"containers": 7}}) == ()
