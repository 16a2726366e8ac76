from __future__ import annotations

import re

from tests.volcano.suite_run import Case, Outcome, name_pattern, read_report


def spec(name, state, *, message="", kind="It", above=("Job E2E Test",)):
    found = {"ContainerHierarchyTexts": list(above), "LeafNodeType": kind, "LeafNodeText": name, "State": state}
    if message:
        found["Failure"] = {"Message": message, "Location": {"FileName": "/x/e2e/jobp/job.go", "LineNumber": 7}}
    return found | {"RunTime": 1_500_000_000}


def test_report_is_read_case_by_case():
    specs = [
        spec("runs", "passed"),
        spec("fails", "failed", message="Expected\n    1\nto equal\n    2"),
        spec("panics", "panicked", message="nil"),
        spec("", "passed", kind="BeforeSuite", above=()),
    ]
    assert read_report([{"SpecReports": specs}, {"SpecReports": None}]) == [
        Case("Job E2E Test runs", Outcome.PASSED, 1.5),
        Case("Job E2E Test fails", Outcome.FAILED, 1.5, "Expected 1 to equal 2 (job.go:7)"),
        Case("Job E2E Test panics", Outcome.FAILED, 1.5, "nil (job.go:7)"),
    ]


def test_case_that_volcano_switched_off_is_told_from_one_that_was_skipped():
    specs = [spec("pending", "pending"), spec("left out", "skipped", message="needs GPUs"), spec("skipped", "skipped")]
    cases = read_report([{"SpecReports": specs}])
    assert [(case.outcome, case.off) for case in cases] == [
        (Outcome.NOT_RUN, True),
        (Outcome.NOT_RUN, True),
        (Outcome.NOT_RUN, False),
    ]


def test_pattern_matches_the_named_cases_alone():
    names = ["Job E2E Test Should reject (0%)", "Queue Event: Any; Action: Restart"]
    pattern = re.compile(name_pattern(names))
    assert all(pattern.search(f"Admission Suite {name}") for name in names)
    assert not pattern.search("Admission Suite Job E2E Test Should reject (0%) twice")
    assert not pattern.search("Admission Suite Job E2E Test Should reject 0%")
