"""Pod failure policy and success policy of a Job. Pure."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Any

from kubesim.controllers.jobs import completion_indexes
from kubesim.registry.registry import Object

FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"


class FailureAction(Enum):
    """What a failure means."""

    COUNT = "Count"
    IGNORE = "Ignore"
    FAIL_INDEX = "FailIndex"
    FAIL_JOB = "FailJob"


def failure_action(job: Object, pod: Object) -> tuple[FailureAction, str]:
    """What a failed pod means by the first rule that it matches; and, if the Job fails for it, the reason."""
    about = pod["metadata"]
    where = f"{about.get('namespace', '')}/{about['name']}"
    for number, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or ()):
        status = pod.get("status") or {}
        tail = f"matching {rule['action']} rule at index {number}"
        if rule.get("onExitCodes"):
            entry = _matching_container(status, rule["onExitCodes"])
            if entry is not None:
                code = entry["state"]["terminated"]["exitCode"]
                return FailureAction(
                    rule["action"]
                ), f"Container {entry['name']} for pod {where} failed with exit code {code} {tail}"
        else:
            kind = _matching_condition(status, rule.get("onPodConditions") or ())
            if kind is not None:
                return FailureAction(rule["action"]), f"Pod {where} has condition {kind} {tail}"
    return FailureAction.COUNT, ""


def _matching_container(status: Object, rule: Object) -> Object | None:
    """The first container that ended with a code of the rule."""
    for group in ("containerStatuses", "initContainerStatuses"):
        for entry in status.get(group) or ():
            code = ((entry.get("state") or {}).get("terminated") or {}).get("exitCode", 0)
            named = rule.get("containerName") in {None, entry["name"]}
            if code and named and (code in rule["values"]) == (rule["operator"] == "In"):
                return dict(entry)
    return None


def _matching_condition(status: Object, patterns: Collection[Object]) -> str | None:
    for entry in status.get("conditions") or ():
        for pattern in patterns:
            if (entry["type"], entry["status"]) == (pattern["type"], pattern.get("status", "True")):
                return str(entry["type"])
    return None


def matched_success_rule(job: Object, done: Collection[int]) -> str | None:
    """Which rule of the success policy the completed indexes meet, if any."""
    for number, rule in enumerate((job["spec"].get("successPolicy") or {}).get("rules") or ()):
        count = rule.get("succeededCount")
        wanted = set(done)
        if rule.get("succeededIndexes") is not None:
            named = completion_indexes.parse_indexes(rule["succeededIndexes"], job["spec"].get("completions") or 0)
            wanted &= named
            if not named:
                continue
            count = len(named) if count is None else count
        if done and count is not None and len(wanted) >= count:
            return f"Matched rules at index {number}"
    return None


def index_failure_counts(pod: Object) -> tuple[int, int]:
    """The counted and ignored failures of a pod's index before this pod."""
    return _number(pod, FAILURES), _number(pod, IGNORED)


def failure_count_annotations(job: Object, replaced: Object | None) -> dict[str, str]:
    """The annotations by which the next pod of an index knows how often it has failed."""
    counted, ignored = index_failure_counts(replaced) if replaced else (0, 0)
    if replaced and failure_action(job, replaced)[0] is FailureAction.IGNORE:
        ignored += 1
    elif replaced:
        counted += 1
    return {FAILURES: str(counted)} | ({IGNORED: str(ignored)} if ignored else {})


def fails_index(job: Object, pod: Object) -> bool:
    """Whether a failed pod is the end of its index."""
    action = failure_action(job, pod)[0]
    if action is FailureAction.IGNORE:
        return False
    limit: Any = job["spec"].get("backoffLimitPerIndex")
    return action is FailureAction.FAIL_INDEX or (limit is not None and index_failure_counts(pod)[0] >= limit)


def _number(pod: Object, key: str) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(key, "")
    return int(text) if text.isdecimal() and len(text) < 10 else 0
