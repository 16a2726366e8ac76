"""What the containers of a simulated pod do, as its annotations (or labels) say, or else their commands.

``run-seconds: "30"``
    They run for 30 seconds and exit with 0, and the pod has succeeded, whatever its restart policy. Without it they
    run until they are stopped.
``fail: "true"``
    They exit with 1 instead; a number from 1 to 255 is the exit code. At the end of ``run-seconds``, or, without it,
    as soon as they have started. Under the restart policy ``OnFailure`` they are started again.
``fail: "137 after 10"``
    They fail 10 seconds after they have started, if they still run then.
``stop-seconds: "2"``
    When the pod is deleted they take 2 seconds to stop. Without it they ignore the signal and are killed when the
    grace period is over, like a shell script without a trap.

Without ``run-seconds`` and ``fail``, the commands of the containers count if ``shell_commands`` knows the effect of all
of them: ``sh -c "sleep 10 && exit 3"``. Then the restart policy ``Always`` is followed too, because a command ends by
itself on a real node as well.

All containers of a pod do the same at the same time: with commands, they end with the last of them, and fail if one
does. Init containers are done at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kubesim.identity import ServerIdentity
from kubesim.kubelet.shell_commands import command_run
from kubesim.registry.registry import Object

RUN_SECONDS, FAIL, STOP_SECONDS = "run-seconds", "fail", "stop-seconds"
MAX_SECONDS = 1e9

_NUMBER = re.compile(r"[0-9]{1,10}(\.[0-9]{1,9})?")
_FAIL = re.compile(r"(?P<how>true|false|[0-9]{1,3})(\s+after\s+(?P<after>\S+))?")


class PodBehaviorError(ValueError):
    """A malformed behaviour annotation."""


@dataclass(frozen=True, slots=True)
class PodBehavior:
    """How long containers run, and how they exit. None: until they are stopped."""

    seconds: float | None = None
    exit_code: int = 0
    stop_seconds: float | None = None
    by_command: bool = False
    """Whether commands say so, which end again after every restart, rather than annotations."""


def read_behavior(pod: Object, identity: ServerIdentity, missing_programs: frozenset[str] = frozenset()) -> PodBehavior:
    """The behaviour of a pod's containers, by its annotations or labels, or by their commands."""
    run, stop = _seconds(pod, identity.annotation(RUN_SECONDS)), _seconds(pod, identity.annotation(STOP_SECONDS))
    fail = identity.annotation(FAIL)
    text = _annotation_or_label(pod, fail)
    if text is None:
        return PodBehavior(run, 0, stop) if run is not None else _command_behavior(pod, stop, missing_programs)
    match = _FAIL.fullmatch(text.strip().lower())
    code = {"true": 1, "false": 0}.get(match["how"], -1) if match else 256
    if match and code < 0:
        code = int(match["how"])
    if not match or code > 255:
        raise PodBehaviorError(
            f"{fail}: {text!r} is not known; write true, or an exit code from 1 to 255, and perhaps when: '1 after 30'"
        )
    if code == 0:
        return PodBehavior(run, 0, stop)
    after = _number(match["after"], fail, text) if match["after"] else None
    if after is None:
        return PodBehavior(run or 0.0, code, stop)
    if run is not None and run <= after:
        return PodBehavior(run, 0, stop)  # it succeeds before it could fail
    return PodBehavior(after, code, stop)


def _command_behavior(pod: Object, stop: float | None, missing_programs: frozenset[str]) -> PodBehavior:
    runs = []
    for container in (pod.get("spec") or {}).get("containers") or ():
        words = (*(container.get("command") or ()), *(container.get("args") or ()))
        run = command_run(words, missing_programs) if container.get("command") else None
        if run is None:
            return PodBehavior(stop_seconds=stop)
        runs.append(run)
    if not runs:
        return PodBehavior(stop_seconds=stop)
    failures = (run.exit_code for run in runs if run.exit_code)
    return PodBehavior(max(run.seconds for run in runs), next(failures, 0), stop, by_command=True)


def _annotation_or_label(pod: Object, key: str) -> str | None:
    about = pod["metadata"]
    for where in ("annotations", "labels"):
        text = (about.get(where) or {}).get(key)
        if text is not None:
            return str(text)
    return None


def _seconds(pod: Object, key: str) -> float | None:
    text = _annotation_or_label(pod, key)
    return None if text is None else _number(text, key, text)


def _number(number: str, key: str, text: str) -> float:
    if not _NUMBER.fullmatch(number.strip()) or float(number) > MAX_SECONDS:
        raise PodBehaviorError(f"{key}: {text!r} has no number of seconds; write for example 30, or 0.5")
    return float(number)
