"""What objects say of themselves arrives, in order, however long it takes."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import pytest

from pumice.kube.client.api import Patch
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.client.rate_limit import Backoff
from pumice.kube.resources import POD_GROUPS, PODS, QUEUES
from pumice.scheduler import status_writer
from pumice.scheduler.status_writer import StatusWriter


class Server:
    """Keeps what is patched; ``troubles`` are raised instead, one after the other."""

    def __init__(self, *troubles: Exception) -> None:
        self.troubles = list(troubles)
        self.found: dict[str, dict[str, Any]] = {}
        self.uid = ""  # of all that is there; empty: whatever is asked for
        self.calls = 0

    async def _take(self, name: str, status: dict[str, Any]) -> None:
        self.calls += 1
        await asyncio.sleep(0)
        if self.troubles:
            raise self.troubles.pop(0)
        self.found.setdefault(name, {}).update(status)

    async def patch(self, _: object, name: str, patch: dict[str, Any], namespace: str, **how: object) -> None:
        self.how = how
        if self.uid and patch.get("metadata", {}).get("uid", self.uid) != self.uid:
            self.calls += 1
            raise ApiError(422, "Invalid", "metadata.uid: field is immutable")
        await self._take(f"{namespace}/{name}", patch["status"])

    async def patch_status(self, _: object, name: str, status: dict[str, Any]) -> None:
        await self._take(name, status)


def play(server: Server, *writes: tuple[Any, ...]) -> Server:
    async def run() -> None:
        with mock.patch.object(status_writer, "Backoff", return_value=Backoff(0.001, 0.002)):
            writing = StatusWriter(server)  # type: ignore[arg-type]  # it does what is needed of an API
            for write in writes:
                writing.write(*write)
            await writing.done()

    asyncio.run(run())
    return server


def test_pending_status_updates_of_object_are_merged_into_one_write() -> None:
    phases = [{"phase": phase} for phase in ("Inqueue", "Running", "Completed")]
    server = play(
        Server(), *((POD_GROUPS.name, "ns/g", phase) for phase in phases), (POD_GROUPS.name, "ns/g", {"running": 2})
    )
    assert server.found == {"ns/g": {"phase": "Completed", "running": 2}}
    assert server.calls == 1  # nothing had begun when the last one came


def test_status_write_is_retried_when_server_is_unavailable() -> None:
    busy = ApiError(503, "ServiceUnavailable", "not now")
    server = play(Server(UnreachableError("cut"), busy), (QUEUES.name, "q", {"share": 0.5}))
    assert server.found == {"q": {"share": 0.5}} and server.calls == 3


def test_status_write_is_dropped_when_object_is_not_found() -> None:
    gone = ApiError(404, "NotFound", "no such queue")
    server = play(Server(gone), (QUEUES.name, "q", {"share": 0.5}), (QUEUES.name, "r", {"share": 0.1}))
    assert server.found == {"r": {"share": 0.1}} and server.calls == 2


def test_status_write_is_retried_after_authorization_error_or_conflict() -> None:
    # Nobody else would: what is under way counts as written.
    troubles = [ApiError(code, "", "not you, not now") for code in (401, 403, 409)]
    server = play(Server(*troubles), (POD_GROUPS.name, "ns/g", {"phase": "Completed"}, "u1"))
    assert server.found == {"ns/g": {"phase": "Completed"}} and server.calls == 4


def test_invalid_status_write_is_not_retried() -> None:
    wrong = ApiError(422, "Invalid", "status.phase: no such phase")
    server = play(Server(wrong), (POD_GROUPS.name, "ns/g", {"phase": "Sleeping"}), (QUEUES.name, "r", {"share": 0.1}))
    assert server.found == {"r": {"share": 0.1}} and server.calls == 2


def test_an_object_made_anew_does_not_say_what_the_one_before_had_to() -> None:
    server = Server()
    server.uid = "u2"
    play(
        server,
        (POD_GROUPS.name, "ns/g", {"phase": "Running", "running": 3}, "u1"),
        (POD_GROUPS.name, "ns/g", {"phase": "Pending"}, "u2"),
    )
    assert server.found == {"ns/g": {"phase": "Pending"}} and server.calls == 1
    play(server, (POD_GROUPS.name, "ns/g", {"phase": "Running", "running": 3}, "u1"))
    assert server.found == {"ns/g": {"phase": "Pending"}} and server.calls == 2


def test_status_retry_is_dropped_when_object_is_recreated() -> None:
    async def run() -> dict[str, dict[str, Any]]:
        server = Server(ApiError(403, "Forbidden", "not now"))
        with mock.patch.object(status_writer, "Backoff", return_value=Backoff(0.02, 0.02)):
            writing = StatusWriter(server)  # type: ignore[arg-type]  # it does what is needed of an API
            writing.write(POD_GROUPS.name, "ns/g", {"phase": "Running", "running": 3}, "u1")
            await asyncio.sleep(0.005)  # refused by now, and about to be sent again
            server.uid = "u2"
            writing.write(POD_GROUPS.name, "ns/g", {"phase": "Pending"}, "u2")
            await writing.done()
        return server.found

    assert asyncio.run(run()) == {"ns/g": {"phase": "Pending"}}


# ---- conditions of pods --------------------------------------------------------------------------------------------

CONDITION = {"conditions": [{"type": "PodScheduled", "status": "False"}]}
POD = (PODS.name, "ns/p", CONDITION, "u1", "7")


def test_a_condition_of_a_pod_is_merged_into_its_status() -> None:
    server = play(Server(), POD)
    assert server.found == {"ns/p": CONDITION}
    assert server.how == {"how": Patch.STRATEGIC, "subresource": "status"}


@pytest.mark.parametrize(("code", "logged"), [(404, 0), (409, 0), (403, 1), (422, 1)])
def test_rejected_pod_condition_is_dropped_and_logged_once(
    code: int, logged: int, caplog: pytest.LogCaptureFixture
) -> None:
    # The pod may be bound by now: the same condition must not be written to it later.
    rejected = [ApiError(code, "", "no") for _ in range(2)]
    server = play(Server(*rejected), POD, (PODS.name, "ns/other", CONDITION, "u2", "8"))
    assert server.found == {} and server.calls == 2
    assert sum("rejects conditions of pods" in record.message for record in caplog.records) == logged


def test_pod_condition_for_newer_revision_replaces_pending_one() -> None:
    newer = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "QueueLimit"}]}
    server = play(Server(), POD, (PODS.name, "ns/p", newer, "u1", "8"))
    assert server.found == {"ns/p": newer} and server.calls == 1


def test_pod_condition_is_retried_when_server_is_unavailable() -> None:
    server = play(Server(UnreachableError("cut"), ApiError(503, "ServiceUnavailable", "not now")), POD)
    assert server.found == {"ns/p": CONDITION} and server.calls == 3


async def let_tasks_run() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_counts_of_a_podgroup_wait_for_one_another_but_a_phase_does_not() -> None:
    """The first counts are written at once; those after them with the next phase, when asked for, or at the end."""
    server = Server()
    name, key = POD_GROUPS.name, "ns/g"

    async def run() -> None:
        writing = StatusWriter(server)  # type: ignore[arg-type]  # it does what is needed of an API
        with mock.patch.object(status_writer, "COUNT_SECONDS", 3600.0):
            writing.write(name, key, {"running": 1})
            await let_tasks_run()
            assert server.found == {key: {"running": 1}}
            for count in (2, 3):
                writing.write(name, key, {"running": count, "succeeded": count})
                await let_tasks_run()
            assert (server.found, server.calls) == ({key: {"running": 1}}, 1)
            writing.write(name, key, {"phase": "Running"})
            await let_tasks_run()
            assert (server.found[key], server.calls) == ({"running": 3, "succeeded": 3, "phase": "Running"}, 2)
            writing.write(name, key, {"running": 4})
            await let_tasks_run()
            assert server.calls == 2
            await writing.wait_written(name, key)
            assert (server.found[key]["running"], server.calls) == (4, 3)
            writing.write(name, key, {"running": 5})
            await let_tasks_run()
            await writing.done()
            assert (server.found[key]["running"], server.calls) == (5, 4)

    asyncio.run(run())
