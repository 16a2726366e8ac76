"""Whom a Command is for, and which of several counts first."""

from __future__ import annotations

import pytest

from pumice.controllers.commands import in_order, is_for
from pumice.kube.resources import JOBS, QUEUES, Document


def command(name: str, created: str, revision: str) -> Document:
    return {"metadata": {"name": name, "creationTimestamp": created, "resourceVersion": revision}}


def test_commands_count_in_the_order_of_their_age() -> None:
    # "a" came last of all, and within the same second as "z": 10 is more than 9, though not as a text.
    commands = [
        command("late", "2026-01-01T00:00:02Z", "5"),
        command("a", "2026-01-01T00:00:01Z", "10"),
        command("z", "2026-01-01T00:00:01Z", "9"),
    ]
    assert [one["metadata"]["name"] for one in in_order(commands)] == ["z", "a", "late"]


@pytest.mark.parametrize(
    ("target", "queue", "job"),
    [
        ({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}, True, False),
        ({"apiVersion": "scheduling.volcano.sh/v1", "kind": "Queue"}, True, False),
        ({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}, False, True),
        ({"apiVersion": "batch/v1", "kind": "Job"}, False, False),
        ({"apiVersion": "other.io/v1", "kind": "Queue"}, False, False),
        ({}, False, False),
    ],
)
def test_whom_a_command_is_for(target: dict[str, str], queue: bool, job: bool) -> None:
    assert (is_for({"target": target}, QUEUES), is_for({"target": target}, JOBS)) == (queue, job)
