"""Jobs that arrive while a hierarchy is not expanded yet, and manifests that are applied again after routing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.admission import QUEUE_FINALIZER, ROUTED, ClusterView, Object, Settings
from pumice.kube.resources import JOBS, QUEUES
from tests.support.admitted import ask, group, job, namespace, node, queue, tell, world
from tests.support.queue_clusters import MemoryCluster, Process
from tests.support.queue_clusters import job as put_job

CONTROLLED = Settings(queue_finalizer=QUEUE_FINALIZER)
CORP = queue(
    "corp",
    hierarchy=[
        {
            "name": "corp-a",
            "hierarchy": [{"name": "corp-a1", "hierarchy": [{"name": "corp-a11"}, {"name": "corp-a12"}]}],
        }
    ],
)


def sent(around: ClusterView, made: Object) -> str:
    verdict = ask(around, made)
    assert verdict.message == "" and verdict.object is not None
    return str(verdict.object["spec"]["queue"])


def test_a_job_goes_to_a_leaf_that_is_about_to_be_created() -> None:
    around = world(CORP, settings=CONTROLLED)
    assert sent(around, job("early", "corp")) == "corp-a11"
    assert sent(around, job("early", "corp-a12")) == "corp-a12"
    assert sent(around, group("early", "corp-a")) == "corp-a11"


def test_leaves_that_exist_come_before_those_that_are_planned() -> None:
    around = world(CORP, queue("default"), settings=CONTROLLED)
    assert sent(around, job("early")) == "default"
    for name, parent in (("corp-a", "corp"), ("corp-a1", "corp-a"), ("corp-a12", "corp-a1")):
        tell(around, queue(name, parent=parent))
    assert sent(around, job("early", "corp")) == "corp-a12"


def test_job_for_queue_not_yet_created_is_told_to_retry() -> None:
    around = world(CORP)
    missing = "not created yet (a hierarchy names it)"
    assert ask(around, job("early", "corp")).message == (
        f"spec.queue: queue 'corp' is not a leaf queue, and none of its leaf queues is Open (corp-a11 is {missing}, "
        f"corp-a12 is {missing}); retry in a few seconds"
    )
    assert ask(around, job("early", "corp-a12")).message == (
        f"spec.queue: queue 'corp-a12' is {missing}; retry in a few seconds"
    )


def test_a_queue_that_closes_is_known_to_be_closed_while_others_are_planned() -> None:
    around = world(CORP, queue("other"), settings=CONTROLLED)
    assert sent(around, job("work", "other")) == "other"
    tell(around, queue("other", state="Closed"))
    assert "it is Closed" in ask(around, job("work", "other")).message
    tell(around, {**CORP, "status": {"state": "Closed"}})
    assert "corp-a11 is Closed (by its ancestor 'corp')" in ask(around, job("work", "corp")).message


@given(looks=st.integers(0, 25))
def test_whenever_a_job_comes_it_is_in_a_leaf_in_the_end(looks: int) -> None:
    async def story() -> None:
        cluster = MemoryCluster()
        for name in ("root", "default"):
            cluster.put(QUEUES, queue(name))
        process = Process(cluster)
        await process.settle()
        cluster.put(QUEUES, CORP)
        for _ in range(looks):
            process.deliver(QUEUES.name, 1)
            await process.look()
        put_job(cluster, "early", "corp")
        (found,) = cluster.all(JOBS)
        assert found["spec"]["queue"] in ("corp-a11", "corp-a12")
        await process.settle()
        assert {"corp", "corp-a", "corp-a1", "corp-a11", "corp-a12"} <= {
            q["metadata"]["name"] for q in cluster.all(QUEUES)
        }
        assert cluster.world.tree.is_leaf(found["spec"]["queue"])

    asyncio.run(story())


def test_a_planned_queue_with_jobs_takes_no_queues() -> None:
    around = world(queue("p", hierarchy=[{"name": "c"}]), settings=CONTROLLED)
    tell(around, job("early", "c"))
    deeper = queue("p", hierarchy=[{"name": "c", "hierarchy": [{"name": "d"}]}])
    verdict = ask(around, deeper, "UPDATE", around.queues["p"])
    assert verdict.message == (
        "spec.hierarchy: Forbidden: queue 'c' has unfinished jobs (Job ns/early), and only leaf queues "
        "may have jobs; wait until they finish, or use another parent"
    )


# ---- applied again ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [job, group])
@pytest.mark.parametrize("asked", ["x", "root", ""])
def test_a_manifest_applied_again_changes_nothing(make: Any, asked: str) -> None:
    around = world(node("n", cpu="10"), queue("x"), queue("x1", parent="x"), queue("x2", parent="x"))
    first = ask(around, make("again", asked)).object
    assert first is not None and first["spec"]["queue"] == "x1"
    tell(around, first)
    tell(around, group("more", "x1", minResources={"cpu": "5"}))  # by now x2 is used less
    again = make("again", asked)
    again["metadata"]["annotations"] = first["metadata"]["annotations"]
    verdict = ask(around, again, "UPDATE", {**first, "status": {"phase": "Running"}})
    assert verdict.message == ""
    assert verdict.object == first
    assert first["metadata"]["annotations"][ROUTED].startswith("Routed to queue 'x1'")


def test_another_queue_is_another_queue() -> None:
    around = world(queue("x"), queue("x1", parent="x"), queue("y"), queue("y1", parent="y"))
    old = ask(around, job("again", "x")).object
    assert "queue may not change" in ask(around, job("again", "y"), "UPDATE", old).message
    pending = ask(around, group("again", "x")).object
    moved = ask(around, group("again", "y"), "UPDATE", pending)
    assert moved.object is not None and moved.object["spec"]["queue"] == "y1"


# ---- the queue of a namespace -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotations", "goes_to"),
    [
        ({"volcano.sh/queue-name": "a"}, "a"),
        ({"scheduling.volcano.sh/queue-name": "b"}, "b"),
        ({"volcano.sh/queue-name": "a", "scheduling.volcano.sh/queue-name": "b"}, "a"),
        ({"volcano.sh/queue-name": "", "scheduling.volcano.sh/queue-name": "b"}, "b"),
    ],
)
def test_a_namespace_names_a_queue_in_either_way(annotations: dict[str, str], goes_to: str) -> None:
    here = namespace("ns")
    here["metadata"]["annotations"] = annotations
    assert sent(world(here, queue("0"), queue("a"), queue("b")), job("work")) == goes_to
