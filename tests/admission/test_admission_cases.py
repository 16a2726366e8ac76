"""Every case of tests/cases/admission.yaml."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.admission import ClusterView, Settings
from tests.support.admitted import ask, group, job, namespace, queue, world
from tests.support.case_files import read_cases

CASES = read_cases("admission")


def surroundings(case: dict[str, Any]) -> ClusterView:
    written = [*CASES["sets"].get(case.get("among"), ()), *case.get("queues", ()), *case.get("also", ())]
    settings = Settings(max_queue_depth=case.get("max_depth"))
    here = namespace("ns", case.get("namespace_queue", ""))
    return world(here, *(queue(**one) for one in written), settings=settings)


@pytest.mark.parametrize("case", CASES["queues"], ids=lambda case: case["id"])
def test_queue(case: dict[str, Any]) -> None:
    around = surroundings(case)
    wanted = queue(**case["queue"])
    name = wanted["metadata"]["name"]
    if case["do"] == "UPDATE":
        around.queues.setdefault(name, queue(name))
    verdict = ask(around, wanted, case["do"], around.queues.get(name))
    if "refused" in case:
        assert case["refused"] in verdict.message
    else:
        assert verdict.message == ""


@pytest.mark.parametrize("case", CASES["entering"], ids=lambda case: case["id"])
def test_entering(case: dict[str, Any]) -> None:
    make = job if case["kind"] == "Job" else group
    verdict = ask(surroundings(case), make("work", case["queue"]))
    if "refused" in case:
        assert case["refused"] in verdict.message
    else:
        assert verdict.message == ""
        assert verdict.object is not None and verdict.object["spec"]["queue"] == case["goes_to"]


@pytest.mark.parametrize(
    ("annotations", "goes_to"),
    [
        ({"scheduling.volcano.sh/queue-name": "a"}, "a"),
        ({"volcano.sh/queue-name": "b"}, "b"),
        ({"scheduling.volcano.sh/queue-name": "a", "volcano.sh/queue-name": "b"}, "b"),
    ],
)
def test_annotations_that_name_the_queue_of_a_namespace(annotations: dict[str, str], goes_to: str) -> None:
    here = {"metadata": {"name": "ns", "annotations": annotations}}
    around = world(here, *(queue(name) for name in ("a", "b", "least")))
    for new in (job("work", ""), group("work", "")):
        found = ask(around, new).object
        assert found is not None and found["spec"]["queue"] == goes_to


def test_ids_are_unique() -> None:
    ids = [case["id"] for case in CASES["queues"] + CASES["entering"]]
    assert len(ids) == len(set(ids))
