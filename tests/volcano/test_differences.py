from __future__ import annotations

import pytest

from tests.volcano.differences import (
    Difference,
    DifferenceClass,
    DifferencesError,
    Verdict,
    judge,
    read_differences,
    skipped_cases,
)
from tests.volcano.run import summary
from tests.volcano.servers import SERVERS
from tests.volcano.suite_run import Case, Outcome
from tools.volcano_suites import SUITES

PASSED, FAILED, NOT_RUN = Outcome.PASSED, Outcome.FAILED, Outcome.NOT_RUN


def listed(case, **more):
    return Difference(case, DifferenceClass.DESIGN, "on purpose", "expected 2", **more)


@pytest.mark.parametrize("server", SERVERS)
def test_shipped_list_is_valid_and_names_every_suite(server):
    assert read_differences(server).keys() == set(SUITES)


def test_entry_may_count_for_one_server(tmp_path):
    path = tmp_path / "list.yaml"
    path.write_text("a: [{class: missing, reason: r, server: embedded, cases: {c: m}}]")
    assert [entry.case for entry in read_differences("embedded", path)["a"]] == ["c"]
    assert read_differences("kubernetes", path) == {"a": []}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "a: [{class: odd, reason: r, cases: {c: m}}]",
            r"a\[0\].class: Unsupported value: 'odd': supported values: w",
        ),
        ("a: [{class: design, cases: {c: m}}]", r"a\[0\].reason: Required value"),
        ("a: [{class: design, reason: r}]", r"a\[0\].cases: Required value"),
        ("a: [{class: design, reason: r, cases: {c: }}]", r"a\[0\].cases\[c\]: Required value: a part of the message"),
        ("a: [{class: design, reason: r, cases: {c: m}, skip: true}]", r"a\[0\]: unknown field 'skip'"),
        (
            "a: [{class: design, reason: r, cases: {c: m}}, {class: missing, reason: r, cases: {c: m}}]",
            r"a\[1\].cases: Duplicate value: 'c'",
        ),
    ],
)
def test_malformed_list_is_refused(tmp_path, text, complaint):
    path = tmp_path / "list.yaml"
    path.write_text(text)
    with pytest.raises(DifferencesError, match=complaint):
        read_differences("embedded", path)


def test_cases_that_never_end_are_skipped_always_and_slow_ones_unless_asked_for():
    known = [listed("b"), listed("slow", slow=True), listed("hangs", hangs=True)]
    assert skipped_cases(known, slow=False) == {"slow", "hangs"}
    assert skipped_cases(known, slow=True) == {"hangs"}


def test_expected_outcomes():
    cases = [
        Case("a", PASSED),
        Case("b", FAILED, message="expected 2, got 1"),
        Case("slow", NOT_RUN),
        Case("hangs", NOT_RUN),
        Case("flaky", PASSED),
        Case("off", NOT_RUN, off=True),
    ]
    known = [listed("b"), listed("slow", slow=True), listed("hangs", hangs=True), listed("flaky", flaky=True)]
    assert judge(cases, known, complete=True) == Verdict(passed=2, differing=3, off=1, problems=[])


@pytest.mark.parametrize(
    ("case", "differences", "problem"),
    [
        (Case("a", FAILED, message="why"), [], "failed: a: why"),
        (Case("a", PASSED), [listed("a")], "listed, but passes: a"),
        (Case("a", FAILED, message="got 1"), [listed("a")], "listed, but fails otherwise: a: got 1"),
        (Case("a", NOT_RUN), [], "did not run: a"),
        (Case("a", NOT_RUN), [listed("a")], "did not run: a"),
    ],
)
def test_unexpected_outcome_is_a_problem(case, differences, problem):
    assert judge([case], differences, complete=True).problems == [problem]


def test_case_that_no_suite_has_is_a_problem():
    assert judge([Case("a", PASSED)], [listed("b")], complete=True).problems == ["listed, but no case of the suite: b"]


def test_cases_outside_of_a_focus_need_not_run():
    assert judge([Case("a", NOT_RUN), Case("b", PASSED)], [], complete=False).problems == []


def test_summary_has_numbers_and_problems():
    assert summary("jobp", Verdict(40, 9, 1, ["failed: a"])) == (
        "jobp: 40 passed, 9 differ, 1 off, 1 wrong\n  failed: a\n"
    )
