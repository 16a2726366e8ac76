"""The cases of Volcano's suites that are known to fail here, with the reason, and the verdict on a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import yaml

from tests.volcano.suite_run import Case, Outcome

PATH = Path(__file__).with_name("differences.yaml")
_REQUIRED = ("class", "reason", "cases")
_FLAGS = ("slow", "flaky", "hangs")
_SERVER = "server"


class DifferenceClass(Enum):
    """Why a case differs."""

    WORDING = "wording"
    """The same is refused, and the case compares Volcano's message."""
    DESIGN = "design"
    """Pumice decides otherwise on purpose."""
    MISSING = "missing"
    """Pumice lacks what the case uses."""
    ENVIRONMENT = "environment"
    """The case needs what the cluster of these tests does not have."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A case that fails here."""

    case: str
    difference_class: DifferenceClass
    reason: str
    failure: str
    """A part of the message it fails with."""
    slow: bool = False
    """It waits for minutes until it fails."""
    flaky: bool = False
    """It may pass as well."""
    hangs: bool = False
    """It never ends, so that the cases after it would not run."""


class DifferencesError(ValueError):
    """The list of differences is malformed."""


def read_differences(server: str, path: Path = PATH) -> dict[str, list[Difference]]:
    """The differences of each suite on this server."""
    suites = yaml.safe_load(path.read_text())
    return {suite: list(_read_suite(suite, entries or (), server)) for suite, entries in suites.items()}


def _read_suite(suite: str, entries: Sequence[Mapping[str, Any]], server: str) -> Iterator[Difference]:
    seen: set[str] = set()
    for number, entry in enumerate(entries):
        where = f"{suite}[{number}]"
        if unknown := entry.keys() - {*_REQUIRED, *_FLAGS, _SERVER}:
            raise DifferencesError(f"{where}: unknown field {min(unknown)!r}")
        for key in _REQUIRED:
            if not entry.get(key):
                raise DifferencesError(f"{where}.{key}: Required value")
        try:
            difference_class = DifferenceClass(entry["class"])
        except ValueError:
            supported = ", ".join(known.value for known in DifferenceClass)
            message = f"{where}.class: Unsupported value: {entry['class']!r}: supported values: {supported}"
            raise DifferencesError(message) from None
        servers = entry.get(_SERVER, server)
        if server not in ([servers] if isinstance(servers, str) else servers):
            continue
        for case, failure in entry["cases"].items():
            if case in seen:
                raise DifferencesError(f"{where}.cases: Duplicate value: {case!r}")
            if not failure:
                raise DifferencesError(f"{where}.cases[{case}]: Required value: a part of the message it fails with")
            seen.add(case)
            options = {key: bool(entry.get(key)) for key in _FLAGS}
            yield Difference(case, difference_class, entry["reason"], str(failure), **options)


def skipped_cases(differences: Sequence[Difference], *, slow: bool) -> set[str]:
    """The cases that are not run: those that never end, and without ``slow`` those that wait for minutes."""
    return {difference.case for difference in differences if difference.hangs or (difference.slow and not slow)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a suite: its numbers, and what is wrong."""

    passed: int
    differing: int
    off: int
    """Cases that Volcano itself does not run."""
    problems: list[str]


def judge(cases: Sequence[Case], differences: Sequence[Difference], *, complete: bool) -> Verdict:
    """Compare a run with the list. ``complete``: every case has to have run that is neither off nor slow."""
    known = {difference.case: difference for difference in differences}
    problems = [f"listed, but no case of the suite: {name}" for name in known.keys() - {case.name for case in cases}]
    judged = ((case, _problem(case, known.get(case.name), complete=complete)) for case in cases)
    problems += [": ".join(filter(None, [problem, case.name, case.message])) for case, problem in judged if problem]
    return Verdict(
        passed=sum(case.outcome is Outcome.PASSED for case in cases),
        differing=sum(case.name in known and case.outcome is not Outcome.PASSED for case in cases),
        off=sum(case.off for case in cases),
        problems=sorted(problems),
    )


def _problem(case: Case, listed: Difference | None, *, complete: bool) -> str:
    """What is wrong with the outcome of a case; empty if nothing is."""
    match case.outcome:
        case Outcome.PASSED:
            return "listed, but passes" if listed and not listed.flaky else ""
        case Outcome.FAILED:
            if listed is None:
                return "failed"
            return "" if listed.failure in case.message else "listed, but fails otherwise"
        case Outcome.NOT_RUN:
            expected = case.off or (listed is not None and (listed.slow or listed.hangs))
            return "did not run" if complete and not expected else ""
