"""One run of a compiled suite, and what became of each of its cases."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from tests.support.processes import run_process
from tools.volcano_suites import program

REPORT_SECONDS = 60.0
"""How long a suite may take to write its report after its time has passed."""


class Outcome(Enum):
    """What became of a case."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Case:
    """A case of a suite: its full text, its outcome, and its failure. ``off``: Volcano itself does not run it."""

    name: str
    outcome: Outcome
    seconds: float = 0.0
    message: str = ""
    off: bool = False


@dataclass(frozen=True, slots=True)
class SuiteError(Exception):
    """A suite left no report."""

    suite: str
    log: Path

    def __str__(self) -> str:
        return f"{self.suite}: the suite ended without a report; its output is in {self.log}"


def run_suite(
    suite: str, programs: Path, kubeconfig: Path, work: Path, *, seconds: float, focus: str, skip: Collection[str]
) -> list[Case]:
    """Run a suite on a cluster, without the cases in ``skip``, for at most ``seconds``."""
    report, log = work / f"{suite}.json", work / f"{suite}.log"
    command = [str(programs / program(suite)), "-test.timeout=0", "--ginkgo.no-color", "--ginkgo.v", "--ginkgo.seed=1"]
    command += [f"--ginkgo.timeout={seconds:.0f}s", f"--ginkgo.json-report={report}"]
    command += [f"--ginkgo.focus={focus}"] if focus else []
    command += [f"--ginkgo.skip={name_pattern(skip)}"] if skip else []
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "VC_BIN": str(programs), "ARTIFACTS_PATH": str(work)}
    with log.open("w") as output:
        run_process(command, timeout=seconds + REPORT_SECONDS, env=environment, cwd=work, stdout=output, stderr=output)
    if not report.exists():
        raise SuiteError(suite, log)
    return read_report(json.loads(report.read_text()))


def name_pattern(names: Collection[str]) -> str:
    """A regular expression for Ginkgo that matches these cases alone."""
    return "|".join(f" {re.escape(name)}$" for name in sorted(names))


def read_report(reports: Sequence[dict[str, Any]]) -> list[Case]:
    """The cases in Ginkgo's report, without steps before and after the suite."""
    specs = [spec for report in reports for spec in report.get("SpecReports") or () if spec["LeafNodeType"] == "It"]
    return [_case(spec) for spec in specs]


_OUTCOMES = {
    "passed": Outcome.PASSED,
    "skipped": Outcome.NOT_RUN,
    "pending": Outcome.NOT_RUN,
}
"""The outcome of each of Ginkgo's states; every other one is a failure."""


def _case(spec: dict[str, Any]) -> Case:
    name = " ".join([*(spec.get("ContainerHierarchyTexts") or ()), spec["LeafNodeText"]])
    outcome = _OUTCOMES.get(spec["State"], Outcome.FAILED)
    failure = spec.get("Failure") or {}
    words = " ".join(failure.get("Message", "").split())
    message = f"{words} ({_place(failure.get('Location') or {})})" if failure else ""
    off = spec["State"] == "pending" or (
        spec["State"] == "skipped" and bool(failure)
    )  # a skip by option has no message
    return Case(name, outcome, (spec.get("RunTime") or 0) / 1e9, message, off)


def _place(location: dict[str, Any]) -> str:
    return f"{Path(location.get('FileName', '')).name}:{location.get('LineNumber', 0)}"
