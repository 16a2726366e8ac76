"""Containers that cannot start, from the statuses that kubelets write."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.kube.decode.container_states import BlockedContainer, blocked_containers, blocked_summary

ENDED = {"terminated": {"exitCode": 1, "reason": "Error"}}


def status(name: str, **state: Any) -> dict[str, Any]:
    last = state.pop("last", {})
    return {"name": name, "state": state, "lastState": last}


def pod(*containers: dict[str, Any], phase: str = "Pending", **more: Any) -> dict[str, Any]:
    about = {"name": "p", **more.pop("metadata", {})}
    return {"metadata": about, "status": {"phase": phase, "containerStatuses": list(containers), **more}}


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("ErrImagePull", 'failed to pull image "x": not found'),
        ("ImagePullBackOff", 'Back-off pulling image "x"'),
        ("ErrImageNeverPull", 'Container image "x" is not present with pull policy of Never'),
        ("InvalidImageName", "couldn't parse image name"),
        ("CreateContainerConfigError", 'secret "s" not found'),
        ("CreateContainerError", "exec: not found"),
        ("RunContainerError", ""),
    ],
)
def test_a_container_that_cannot_start(reason: str, message: str) -> None:
    waiting = {"reason": reason, "message": message} if message else {"reason": reason}
    (found,) = blocked_containers(pod(status("main", waiting=waiting), status("side", running={})))
    assert found == BlockedContainer("p", "main", reason, message)
    assert found.text() == f"pod p, container main: {reason}" + (f": {message}" if message else "")


def test_a_crash_loop_says_how_the_last_run_ended() -> None:
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}
    (found,) = blocked_containers(pod(status("main", waiting=waiting, last=ENDED), phase="Running"))
    ended = "the last run ended with exit code 1 (Error)"
    assert found.message == f"back-off 10s restarting failed container; {ended}"
    (silent,) = blocked_containers(pod(status("main", waiting={"reason": "CrashLoopBackOff"}, last=ENDED)))
    assert silent.message == ended


def test_init_containers_come_first() -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff"}}
    found = list(blocked_containers(pod(status("main", **waiting), initContainerStatuses=[status("init", **waiting)])))
    assert [each.container for each in found] == ["init", "main"]


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing", None])
def test_container_being_created_is_not_blocked(reason: str | None) -> None:
    assert not list(blocked_containers(pod(status("main", waiting={"reason": reason} if reason else {}))))


def test_pods_without_statuses_that_are_over_or_leaving_are_not_looked_at() -> None:
    stuck = status("main", waiting={"reason": "ImagePullBackOff"})
    assert not list(blocked_containers({"metadata": {"name": "p"}}))
    assert not list(blocked_containers(pod(stuck, phase="Failed")))
    assert not list(blocked_containers(pod(stuck, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})))


def test_the_text_of_a_status_does_not_alternate() -> None:
    pull, wait = (BlockedContainer("p", "c", reason, reason) for reason in ("ErrImagePull", "ImagePullBackOff"))
    assert pull.stable_text() == wait.stable_text() == "pod p, container c: ImagePullBackOff"


def test_summaries() -> None:
    one, other = (BlockedContainer("p", name, "CrashLoopBackOff") for name in "ab")
    third = BlockedContainer("q", "a", "CrashLoopBackOff")
    assert blocked_summary([one], 4) == "1 of 4 running pods cannot start its container"
    assert blocked_summary([one, other], 4) == "1 of 4 running pods cannot start its containers"
    assert blocked_summary([one, third], 4) == "2 of 4 running pods cannot start their containers"
    assert blocked_summary([one], 1) == "its running pod cannot start its container"
