"""Answers of ``pumice why`` for many viewers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from kubebase.resource_vector import Registry
from pumice.ui.child_process import Answer
from pumice.ui.http_errors import NotFoundError, UnavailableError
from pumice.ui.wait_reports import WaitReports


class FakeWhy:
    """Answers as the command would; ``gone`` are jobs that it does not find."""

    def __init__(self, gone: Sequence[str] = ()) -> None:
        self.asked: list[list[str]] = []
        self.gone = gone
        self.failure = ""

    async def __call__(self, arguments: Sequence[str]) -> Answer:
        assert arguments[0] == "why"
        jobs = list(arguments[1 : arguments.index("-o")])
        self.asked.append(jobs)
        await asyncio.sleep(0.01)
        if self.failure:
            return 2, b"", self.failure
        reports: list[Any] = [None if job in self.gone else {"job": job, "holds": {"cpu": "1500m"}} for job in jobs]
        status = 1 if None in reports else 0
        values = reports if len(reports) > 1 else reports[0]
        return status, b"" if values is None else json.dumps(values).encode(), ""


def test_one_command_answers_all_who_ask_while_another_runs() -> None:
    async def scenario() -> None:
        why = FakeWhy()
        reports, registry = WaitReports(["--context=x"], why), Registry()
        first = asyncio.create_task(reports.of("a/first", registry))
        await asyncio.sleep(0.005)
        later = [reports.of(f"a/job-{number % 5}", registry) for number in range(50)]
        found = await asyncio.gather(first, *later)
        assert found[0] == {"job": "a/podgroup/first", "holds": {"cpu": 1500}}
        assert why.asked == [["a/podgroup/first"], [f"a/podgroup/job-{number}" for number in range(5)]]
        await reports.of("a/job-3", registry)
        assert len(why.asked) == 2, "an answer is shared for a while"

    asyncio.run(scenario())


def test_a_job_that_is_gone_does_not_spoil_the_answers_about_others() -> None:
    async def scenario() -> None:
        why = FakeWhy(gone=["a/podgroup/gone"])
        reports, registry = WaitReports([], why), Registry()
        names = ("gone", "there")
        found = await asyncio.gather(*(reports.of(f"a/{name}", registry) for name in names), return_exceptions=True)
        assert isinstance(found[0], NotFoundError)
        assert isinstance(found[1], dict)
        with pytest.raises(NotFoundError, match='Job "gone" not found in namespace a'):
            await reports.of("a/gone", registry)

    asyncio.run(scenario())


def test_a_command_that_fails_is_reported_and_tried_again() -> None:
    async def scenario() -> None:
        why = FakeWhy()
        why.failure = "warning\nerror: the cluster is not reachable"
        reports, registry = WaitReports([], why), Registry()
        with pytest.raises(UnavailableError, match="pumice why failed: error: the cluster is not reachable"):
            await reports.of("a/b", registry)
        why.failure = ""
        assert (await reports.of("a/b", registry))["job"] == "a/podgroup/b"

    asyncio.run(scenario())


def test_too_many_jobs_at_once_are_refused() -> None:
    async def scenario() -> None:
        reports, registry = WaitReports([], FakeWhy()), Registry()
        asked = [reports.of(f"a/{number}", registry) for number in range(200)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(isinstance(each, UnavailableError) for each in found) == 200 - 64

    asyncio.run(scenario())
