"""Every case of tests/cases/admission.yaml, written in a file: it is refused what a cluster refuses, in its words."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.admission import CREATE, DELETE, ClusterView, Settings
from tests.sim.samples import Document, opened, scenario
from tests.support.admitted import ask, group, job, namespace, queue, world
from tests.support.case_files import read_cases

CASES = read_cases("admission")

OTHERWISE_IN_FILES = {
    "unknown-operation": "a file creates, an event changes or deletes; there is no fourth thing to write",
    "below-running-pods": "what a queue holds is counted from the pods of the file, whatever its status says",
    "podgroup-without-queue-or-queues": "every cluster has the queue default, so there is somewhere to go",
    "podgroup-without-queue": "goes to default, which is as idle as q2 and comes first by name",
    "job-without-queue": "as above",
}
"""Cases with another outcome, and why."""

DEPTH = "how deep a tree may be is a setting of the webhook, which a file does not know"


def around(case: dict[str, Any]) -> list[Document]:
    written = [*CASES["sets"].get(case.get("among"), ()), *case.get("queues", ()), *case.get("also", ())]
    return [queue(**one) for one in written]


def as_admission_says(case: dict[str, Any], asked: Document, operation: str) -> str:
    here = namespace("ns", case.get("namespace_queue", ""))
    known: ClusterView = world(here, *around(case), settings=Settings(max_queue_depth=case.get("max_depth")))
    name = asked["metadata"]["name"]
    if operation == "UPDATE":
        known.queues.setdefault(name, queue(name))
    return ask(known, asked, operation, known.queues.get(name)).message


def as_a_file_says(documents: list[Document], events: list[Document], subject: str) -> tuple[str, Any]:
    expected = {"errors": [{"object": "Queue/any"}]}  # so that a refusal keeps nobody from running the rest
    simulation = opened(scenario(events=[{"cycle": 1, **event} for event in events], expect=expected), *documents)
    simulation.run()
    return "; ".join(error.reason for error in simulation.errors if error.object == subject), simulation


def kept(case: dict[str, Any]) -> Any:
    reason = DEPTH if "max_depth" in case and "refused" in case else OTHERWISE_IN_FILES.get(case["id"])
    return pytest.param(case, id=case["id"], marks=[pytest.mark.xfail(reason=reason, strict=True)] if reason else [])


@pytest.mark.parametrize("case", [kept(case) for case in CASES["queues"]])
def test_queue(case: dict[str, Any]) -> None:
    asked, documents, operation = queue(**case["queue"]), around(case), case["do"]
    name = case["queue"]["name"]
    if operation == "UPDATE" and all(one["metadata"]["name"] != name for one in documents):
        documents.append(queue(name))
    said = as_admission_says(case, asked, operation)
    assert case.get("refused", "") in said
    subject = f"Queue/{name}"
    if operation == CREATE:
        assert as_a_file_says([*documents, asked], [], subject)[0] == said
    event = {"delete": {"kind": "Queue", "name": name}} if operation == DELETE else {"apply": asked}
    assert as_a_file_says(documents, [event], subject)[0] == said


@pytest.mark.parametrize("case", [kept(case) for case in CASES["entering"]])
@pytest.mark.parametrize("later", [False, True], ids=["in the file", "in an event"])
def test_entering(case: dict[str, Any], later: bool) -> None:
    asked = (job if case["kind"] == "Job" else group)("work", case["queue"])
    here = {"apiVersion": "v1", "kind": "Namespace", **namespace("ns", case.get("namespace_queue", ""))}
    documents = [here, *around(case)]
    said, simulation = as_a_file_says(
        documents if later else [*documents, asked], [{"apply": asked}] if later else [], f"{case['kind']}/ns/work"
    )
    assert said == as_admission_says(case, asked, CREATE)
    assert case.get("refused", "") in said
    entered = simulation.cluster.objects.jobs.get("ns/work")
    assert (entered.queue if entered else None) == case.get("goes_to")


def test_the_list_of_exceptions_names_cases() -> None:
    assert OTHERWISE_IN_FILES.keys() <= {case["id"] for case in CASES["queues"] + CASES["entering"]}
