"""States of queues, and what commands make of them: every case of tests/cases/queue_state.yaml, and trees by table."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pumice.controllers.queues.commands import why_not
from pumice.controllers.queues.queue_cache import QueueCache
from pumice.controllers.queues.workload_counts import Tally
from pumice.kube.resources import COMMANDS, JOBS, POD_GROUPS, QUEUES
from pumice.kube.watch.change_queue import Change
from tests.support.case_files import read_cases
from tests.support.queue_clusters import MemoryCluster, Process, command, group, job

CASES = read_cases("queue_state")


def cluster_of(**parents: str) -> MemoryCluster:
    """Queues by name, each with the one above it."""
    made = MemoryCluster()
    made.put(QUEUES, {"metadata": {"name": "root"}, "spec": {}})
    for name, parent in parents.items():
        made.put(QUEUES, {"metadata": {"name": name}, "spec": {"parent": parent}})
    return made


def settled(cluster: MemoryCluster) -> dict[str, str]:
    """The states when everything has been looked at, by a controller that has seen nothing before."""
    asyncio.run(Process(cluster).settle())
    return {queue["metadata"]["name"]: queue["status"]["state"] for queue in cluster.all(QUEUES)}


def store(cluster: MemoryCluster, name: str, state: str) -> None:
    cluster.merge(QUEUES, name, {"status": {"state": state}}, subresource="status")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case(case: dict[str, Any]) -> None:
    cluster = cluster_of(q="root")
    for number in range(case["podgroups"]):
        group(cluster, f"work-{number}", "q")
    if "stored" in case:
        store(cluster, "q", case["stored"])
    if "command" in case:
        command(cluster, case["command"], "q")
    assert settled(cluster) == {"root": "Open", "q": case["becomes"]}
    assert not list(cluster.all(COMMANDS))
    writes = cluster.writes
    settled(cluster)
    assert cluster.writes == writes


def test_ids_are_unique() -> None:
    assert len({case["id"] for case in CASES}) == len(CASES)


@pytest.mark.parametrize(
    ("commands", "states"),
    [
        # A queue below one that is closed or paused cannot be open.
        ([("CloseQueue", "eng")], {"eng": "Closing", "a": "Closing", "b": "Closed", "c": "Closed"}),
        ([("PauseQueue", "eng")], {"eng": "Paused", "a": "Paused", "b": "Paused", "c": "Paused"}),
        ([("CloseQueue", "eng"), ("OpenQueue", "b")], {"eng": "Closing", "b": "Closed", "c": "Closed"}),
        # Each is what it was by itself when the one above opens.
        ([("CloseQueue", "b"), ("CloseQueue", "eng"), ("OpenQueue", "eng")], {"eng": "Open", "b": "Closed"}),
        ([("PauseQueue", "b"), ("CloseQueue", "eng"), ("OpenQueue", "eng")], {"eng": "Open", "b": "Paused"}),
        ([("CloseQueue", "eng"), ("CloseQueue", "b"), ("OpenQueue", "eng")], {"eng": "Open", "b": "Closed"}),
        ([("CloseQueue", "b"), ("PauseQueue", "eng"), ("OpenQueue", "b"), ("ResumeQueue", "eng")], {"b": "Open"}),
        # Of two above, the stricter counts; c is two levels down.
        ([("PauseQueue", "eng"), ("CloseQueue", "b")], {"eng": "Paused", "b": "Closed", "c": "Closed", "a": "Paused"}),
        ([("CloseQueue", "eng"), ("PauseQueue", "b"), ("OpenQueue", "eng")], {"b": "Paused", "c": "Paused"}),
    ],
)
def test_states_in_a_tree(commands: list[tuple[str, str]], states: dict[str, str]) -> None:
    cluster = cluster_of(eng="root", a="eng", b="eng", c="b")
    group(cluster, "work", "a")
    for action, queue in commands:
        command(cluster, action, queue)
        settled(cluster)
    assert settled(cluster).items() >= states.items()


def test_a_queue_that_comes_below_a_closed_one_is_closed_and_says_why() -> None:
    cluster = cluster_of(eng="root")
    command(cluster, "CloseQueue", "eng")
    settled(cluster)
    cluster.put(QUEUES, {"metadata": {"name": "late"}, "spec": {"parent": "eng"}})
    assert settled(cluster)["late"] == "Closed"
    (condition,) = (cluster.queue("late") or {})["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("OwnState", "Open")
    assert condition["message"] == "its ancestor 'eng' is Closed; its own state is Open"


def test_conditions_of_others_stay() -> None:
    cluster = cluster_of(eng="root", a="eng")
    other = {"type": "Audited", "status": "True"}
    cluster.merge(QUEUES, "a", {"status": {"conditions": [other]}}, subresource="status")
    command(cluster, "CloseQueue", "eng")
    settled(cluster)
    assert [c["type"] for c in (cluster.queue("a") or {})["status"]["conditions"]] == ["Audited", "OwnState"]
    command(cluster, "OpenQueue", "eng")
    settled(cluster)
    first, own = (cluster.queue("a") or {})["status"]["conditions"]
    assert first == other and own["message"] == "its own state is Open"


@pytest.mark.parametrize("overwritten", ["Closed", "Paused", "Open", "nonsense", None])
def test_a_state_that_somebody_overwrites_is_set_right(overwritten: str | None) -> None:
    cluster = cluster_of(eng="root", a="eng", b="eng")
    command(cluster, "PauseQueue", "a")
    before = settled(cluster)
    assert before == {**before, "eng": "Open", "a": "Paused", "b": "Open"}
    for name in ("eng", "a", "b"):
        cluster.merge(QUEUES, name, {"status": {"state": overwritten}}, subresource="status")
    assert settled(cluster) == before


def test_a_job_keeps_its_queue_closing_until_it_is_over() -> None:
    cluster = cluster_of(q="root")
    job(cluster, "sums", "q")
    command(cluster, "CloseQueue", "q")
    assert settled(cluster)["q"] == "Closing"
    cluster.merge(JOBS, "sums", {"status": {"state": {"phase": "Completed"}}}, "ns", "status")
    assert settled(cluster)["q"] == "Closed"


def test_a_command_for_an_earlier_queue_of_that_name_goes_and_does_nothing() -> None:
    cluster = cluster_of(q="root")
    command(cluster, "CloseQueue", "q")
    (waiting,) = cluster.all(COMMANDS)
    waiting["target"]["uid"] = "of another"
    command(cluster, "PauseQueue", "nowhere")
    assert settled(cluster)["q"] == "Open"
    assert not list(cluster.all(COMMANDS))


def test_a_command_may_come_before_its_queue_is_seen() -> None:
    cluster = cluster_of()

    async def story() -> None:
        process = Process(cluster)
        await process.settle()
        cluster.put(QUEUES, {"metadata": {"name": "q"}, "spec": {}})
        command(cluster, "CloseQueue", "q")
        process.deliver(COMMANDS.name, 1)
        await process.look()
        await process.settle()

    asyncio.run(story())
    assert (cluster.queue("q") or {})["status"]["state"] == "Closed"


def test_late_news_are_no_news() -> None:
    def seen(old: int | None, new: int | None) -> Change[dict[str, Any]]:
        before, after = (None if revision is None else known(revision) for revision in (old, new))
        return Change(QUEUES.name, "q", "u", str(new or old), before, after)

    def known(revision: int) -> dict[str, Any]:
        return {"metadata": {"name": "q", "uid": "u", "resourceVersion": str(revision)}, "spec": {"weight": revision}}

    picture = QueueCache()
    assert picture.on_change(seen(None, 1))
    assert picture.apply_write(known(3))  # the answer to a write of ours
    assert not picture.on_change(seen(1, 2))
    assert not picture.on_change(seen(2, 3))
    assert picture.queues["q"]["spec"]["weight"] == 3
    assert picture.on_change(seen(3, None))
    assert not picture.apply_write(known(4))  # an answer that came after the end
    assert not picture.queues


def ordered(command: str, created: str, revision: str, **target: Any) -> dict[str, Any]:
    about = {"name": command, "creationTimestamp": created, "resourceVersion": revision, "uid": command}
    return {"metadata": about, "action": "OpenQueue", "target": target}


def test_a_command_is_meant_for_one_queue() -> None:
    queue = {"metadata": {"name": "q", "uid": "u"}}
    meant = {"kind": "Queue", "name": "q"}
    assert not why_not(ordered("c", "", "1", uid="u", **meant), queue)
    assert not why_not(ordered("c", "", "1", **meant), queue)
    assert why_not(ordered("c", "", "1", uid="v", **meant), queue) == (
        "target.uid: Invalid value: 'v': queue 'q' has the uid 'u', so it was recreated since"
    )
    assert why_not(ordered("c", "", "1", uid="u", **meant), None) == "queue 'q' not found"
    assert why_not(ordered("c", "", "1", uid="u"), None) == "target.name: Required value"
    wrong = why_not({**ordered("c", "", "1", uid="u", **meant), "action": "AbortJob"}, queue)
    assert wrong == (
        "action: Unsupported value for a queue: 'AbortJob': supported values: OpenQueue, CloseQueue, "
        "PauseQueue, ResumeQueue"
    )


def test_the_tally_counts_what_is_there_and_what_is_not_over() -> None:
    tally = Tally()
    running = {"spec": {"queue": "q"}, "status": {"phase": "Running"}}
    assert tally.note(POD_GROUPS.name, "ns/a", running) == {"q"}
    assert tally.note(POD_GROUPS.name, "ns/a", running) == set()
    assert tally.note(JOBS.name, "ns/a", {"spec": {"queue": "q"}, "status": {"state": {"phase": "Failed"}}}) == {"q"}
    assert (tally.present["q"], tally.unfinished["q"]) == (2, 1)
    assert tally.note(POD_GROUPS.name, "ns/a", {**running, "status": {"phase": "Completed"}}) == {"q"}
    assert (tally.present["q"], tally.unfinished["q"]) == (2, 0)
    assert tally.note(POD_GROUPS.name, "ns/a", {"spec": {"queue": "other"}}) == {"q", "other"}
    assert tally.note(POD_GROUPS.name, "ns/a", None) == {"other"}
    assert tally.note(JOBS.name, "ns/a", None) == {"q"}
    assert not any(tally.present.values()) and not any(tally.unfinished.values())
