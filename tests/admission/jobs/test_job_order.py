"""Which jobs a job may name to start after."""

from __future__ import annotations

import pytest

from pumice.admission.cluster_view import ClusterView
from pumice.admission.jobs.job_order import AFTER, OrderError, Upstream, order_is_sound, parse_after
from pumice.admission.request import CREATE, JOBS, Request


def test_jobs_are_named_with_what_must_become_of_them() -> None:
    assert parse_after("a,any:b, ok:c.d") == (Upstream("a"), Upstream("b", must_complete=False), Upstream("c.d"))
    assert [str(each) for each in parse_after("ok:a,any:b")] == ["a", "any:b"]


@pytest.mark.parametrize("text", ["", "a,", "some:a", "A", "a/b", "any:", "a:any"])
def test_what_names_no_job_is_rejected(text: str) -> None:
    with pytest.raises(OrderError):
        parse_after(text)


@pytest.mark.parametrize(("text", "words"), [("a", ""), ("no:a", "JOB or any:JOB is needed"), ("j", "after itself")])
def test_admission_rejects_an_order_that_cannot_be(text: str, words: str) -> None:
    job = {"metadata": {"name": "j", "annotations": {AFTER: text}}, "spec": {}}
    said = [refusal.message for refusal in order_is_sound(Request(CREATE, JOBS, job, None), ClusterView())]
    assert (len(said), words in "".join(said)) == (bool(words), True)
