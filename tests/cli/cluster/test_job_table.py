"""Jobs as tables, and in words."""

from __future__ import annotations

from typing import Any

import click

from kubebase.ages import at, seconds
from pumice.cli.cluster.job_table import JobTable, requests_of
from pumice.cli.cluster.job_view import describe_job
from pumice.cli.text_table import Table

CREATED = "2026-01-01T00:00:00Z"
NOW = seconds("2026-01-01T00:05:00Z")


def job(name: str, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    task = {"name": "worker", "replicas": 3, "template": {"spec": {"containers": [container, container]}}}
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": name, "creationTimestamp": CREATED},
        "spec": {"queue": "dev", "minAvailable": 2, "maxRetry": 3, "tasks": [task], **spec},
        "status": {"state": {"phase": "Running"}, "running": 2, "pending": 1, "retryCount": 1},
    }


def printed(view: JobTable, jobs: list[dict[str, Any]]) -> list[str]:
    with at(NOW):
        rows = view.rows(jobs).values()
    table = Table(view.columns)
    table.widen(row.cells for row in rows)
    return [click.unstyle(line) for line in (table.heading(), *(table.line(row.cells) for row in rows))]


def test_a_line_each_by_name() -> None:
    assert printed(JobTable(), [job("b", queue="default"), job("a")]) == [
        "Name  Queue    Phase    Replicas  Min  Pending  Running  Succeeded  Failed  Unknown  Retries  Age",
        "a     dev      Running         3    2        1        2          0       0        0        1   5m",
        "b     default  Running         3    2        1        2          0       0        0        1   5m",
    ]


def test_job_table_lists_all_namespaces_filtered_by_queue() -> None:
    view = JobTable(queues=["dev"], everywhere=True)
    assert [line.split()[:3] for line in printed(view, [job("a"), job("a", "b"), job("c", queue="x")])] == [
        ["Namespace", "Name", "Queue"],
        ["b", "a", "dev"],
        ["default", "a", "dev"],
    ]


def test_wide() -> None:
    wide = job("a", priorityClassName="high")
    wide["metadata"]["annotations"] = {"volcano.sh/user": "ann"}
    wide["status"]["state"]["message"] = "two of three"
    heading, line = printed(JobTable(wide=True), [wide])
    assert heading.split()[-5:] == ["User", "Priority", "Tasks", "Requests", "Message"]
    # two containers of 500m and 1Gi each
    assert line.split()[-7:] == ["ann", "high", "worker=3", "cpu=1,memory=2Gi", "two", "of", "three"]


def test_job_without_status_is_pending() -> None:
    bare = {"metadata": {"name": "a", "namespace": "default"}}
    (row,) = JobTable().rows([bare]).values()
    assert [click.unstyle(cell) for cell in row.cells] == ["a", "-", "Pending", *["0"] * 8, "<unknown>"]


def test_a_limit_alone_is_a_request() -> None:
    resources = {"limits": {"nvidia.com/gpu": 1, "cpu": 2}, "requests": {"cpu": 1, "bad": "x"}}
    assert requests_of({"template": {"spec": {"containers": [{"resources": resources}]}}}) == {
        "cpu": "1",
        "nvidia.com/gpu": "1",
    }


def test_description_of_a_job() -> None:
    waits = {"type": "Unschedulable", "status": "True", "reason": "NotEnough", "message": "no node"}
    conditions = [{**waits, "lastTransitionTime": CREATED}, {"type": "Scheduled", "status": "False", "reason": "old"}]
    group = {"metadata": {"name": "a-1"}, "status": {"phase": "Inqueue", "conditions": conditions}}
    pods = [
        {"metadata": {"name": f"a-worker-{i}", "creationTimestamp": CREATED}, "spec": {"nodeName": "n"}}
        for i in range(25)
    ]
    event = {"metadata": {}, "type": "Normal", "reason": "Routed", "message": "sent", "lastTimestamp": CREATED}
    shown = job("a")
    shown["status"]["taskStatusCount"] = {"worker": {"phase": {"Running": 2, "Pending": 1}}}
    shown["status"]["state"]["lastTransitionTime"] = CREATED
    with at(NOW):
        lines = [click.unstyle(line) for line in describe_job(shown, [group], pods, [event])]
    assert lines[:7] == [
        "Name:       a",
        "Namespace:  default",
        "Queue:      dev",
        "Phase:      Running for 5m",
        "Pods:       3, minimum 2",
        "Retries:    1 of 3",
        "Created:    2026-01-01T00:00:00Z (5m ago)",
    ]
    assert lines[8:11] == [
        "Tasks:",
        "  Name    Replicas  Min  Pending  Running  Succeeded  Failed  Unknown  Requests          Image",
        "  worker         3    -        1        2          0       0        0  cpu=1,memory=2Gi  busybox",
    ]
    assert lines[12:14] == ["Podgroup: a-1 Inqueue", "  Unschedulable for 5m: NotEnough: no node"]
    assert lines[-6:] == [
        "  a-worker-19  -     Pending  n      5m",
        "  and 5 more",
        "",
        "Events:",
        "  Age  Type    Reason  Message",
        "  5m   Normal  Routed  sent",
    ]
