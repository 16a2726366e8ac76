"""The sums of the picture are those of its objects, whatever the order in which objects come, change and go."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pumice.ui.board import Board
from pumice.ui.decisions import DecisionFeed
from tests.support.seen_objects import SeenCluster, group, node, pod, queue

NAMES = st.sampled_from(["a", "b", "c"])
PHASES = st.sampled_from(["", "Running", "Succeeded", "Failed"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put pod"), NAMES, NAMES, st.sampled_from(["", "n1", "n2"]), PHASES, st.integers(1, 4)),
        st.tuples(st.just("drop pod"), NAMES),
        st.tuples(st.just("put group"), NAMES, st.sampled_from(["q1", "q2"]), st.sampled_from(["Pending", "Running"])),
        st.tuples(st.just("drop group"), NAMES),
    ),
    max_size=40,
)


def holds(document: dict[str, object]) -> bool:
    spec, status = document["spec"], document["status"]
    return bool(spec["nodeName"]) and status["phase"] not in ("Succeeded", "Failed")  # type: ignore[index]  # JSON


@given(STEPS)
def test_sums_equal_a_recount(steps: list[tuple[object, ...]]) -> None:
    cluster = SeenCluster()
    cluster.put("Queue", queue("root"), queue("q1"), queue("q2"))
    cluster.put("Node", node("n1"), node("n2"))
    board = Board(cluster.picture, DecisionFeed(cluster.picture, "log"))
    board.refresh()
    for step in steps:
        match step:
            case "put pod", str(name), str(job), str(place), str(phase), int(cpu):
                cluster.put("Pod", pod(name, job, place, phase, cpu=str(cpu)))
            case "put group", str(name), str(where), str(phase):
                cluster.put("PodGroup", group(name, where, phase))
            case "drop pod", str(name):
                if ("Pod", f"default/{name}") in cluster.objects:
                    cluster.drop("Pod", f"default/{name}")
            case "drop group", str(name):
                if ("PodGroup", f"default/{name}") in cluster.objects:
                    cluster.drop("PodGroup", f"default/{name}")
        board.refresh()
    queues = {each["metadata"]["name"]: each["spec"]["queue"] for each in cluster.of("PodGroup")}
    for name in ("q1", "q2"):
        row = board.tree_rows[f"root/{name}"]
        pods = [
            each
            for each in cluster.of("Pod")
            if queues.get(each["metadata"]["annotations"]["scheduling.k8s.io/group-name"]) == name
        ]
        asked = [int(each["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for each in pods]
        held = [cpu for cpu, each in zip(asked, pods, strict=True) if holds(each)]
        waiting = [
            cpu
            for cpu, each in zip(asked, pods, strict=True)
            if not each["spec"]["nodeName"] and each["status"]["phase"] not in ("Succeeded", "Failed")
        ]
        assert row["used"].get("cpu", 0) == 1000 * sum(held)
        assert row["waiting"].get("cpu", 0) == 1000 * sum(waiting)
        assert row["tasks"] == {"running": len(held), "waiting": len(waiting)}
        phases = Counter(each["status"]["phase"] for each in cluster.of("PodGroup") if each["spec"]["queue"] == name)
        assert row["jobs"]["running"] == phases["Running"]
        assert row["jobs"]["pending"] == phases["Pending"]
    root = board.tree_rows["root"]
    assert root["tasks"]["running"] == sum(board.tree_rows[f"root/{name}"]["tasks"]["running"] for name in ("q1", "q2"))
    for name in ("n1", "n2"):
        there = [each for each in cluster.of("Pod") if each["spec"]["nodeName"] == name and holds(each)]
        assert board.node_rows[name]["tasks"] == len(there)


def test_job_is_found_by_the_name_of_its_owner() -> None:
    cluster = SeenCluster()
    cluster.put("PodGroup", group("train-1", "q1"), group("alone", "q1"))
    assert cluster.picture.find_job("default", "train") == "default/train-1"
    assert cluster.picture.find_job("default", "train-1") == "default/train-1"
    assert cluster.picture.job_name("default/train-1") == "default/train"
    assert cluster.picture.find_job("default", "other") is None
    cluster.drop("PodGroup", "default/train-1")
    assert cluster.picture.find_job("default", "train") is None


def test_unchanged_object_changes_nothing() -> None:
    cluster = SeenCluster()
    cluster.put("Node", node("n1"))
    cluster.picture.take_changes()
    heartbeat = node("n1")
    heartbeat["metadata"]["resourceVersion"] = "99"
    cluster.put("Node", heartbeat)
    assert not cluster.picture.take_changes()
