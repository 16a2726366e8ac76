"""Budgets, preemption policies and promises, as objects state them."""

import pytest

from kubebase.label_selector import Requirement
from pumice.model.specs import DisruptionBudget

BUDGET = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b, namespace: ns}\n"
GROUP = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\n"
POD = "apiVersion: v1\nkind: Pod\n"
SECOND = 10**6


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("minAvailable: 2", {"min_available": 2}),
        ("minAvailable: 0", {"min_available": 0}),
        ("minAvailable: 50%", {"min_available": 50, "percent": True}),
        ("maxUnavailable: 1", {"max_unavailable": 1}),
        ("maxUnavailable: 100%", {"max_unavailable": 100, "percent": True}),
        ("maxUnavailable: 0%, minAvailable: null", {"max_unavailable": 0, "percent": True}),
        # What the disruption controller makes of it: no eviction is allowed.
        ("unhealthyPodEvictionPolicy: AlwaysAllow", {"max_unavailable": 0}),
    ],
)
def test_budget(describe, spec, expected):
    assert describe(f"{BUDGET}spec: {{{spec}}}") == DisruptionBudget("ns", "b", **expected)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", None),  # no selector selects nothing
        ("{}", ()),  # an empty one everything
        ("{matchLabels: {app: web}}", (Requirement("app", "In", ("web",)),)),
        ("{matchExpressions: [{key: app, operator: Exists}]}", (Requirement("app", "Exists"),)),
    ],
)
def test_whom_a_budget_selects(describe, selector, expected):
    assert describe(f"{BUDGET}spec: {{minAvailable: 1, selector: {selector}}}").selector == expected


@pytest.mark.parametrize(
    ("spec", "field", "piece"),
    [
        (
            "minAvailable: 1, maxUnavailable: 1",
            "spec.maxUnavailable",
            "Forbidden: may not be set together with minAvailable; remove one of them",
        ),
        (
            "minAvailable: -1",
            "spec.minAvailable",
            "Invalid value: -1: must be a number of pods such as 2, or a percentage",
        ),
        ("minAvailable: 101%", "spec.minAvailable", "Invalid value: '101%': must be a number of pods"),
        ("maxUnavailable: '2'", "spec.maxUnavailable", "Invalid value: '2': must be a number of pods such as 2"),
        ("maxUnavailable: half", "spec.maxUnavailable", "Invalid value: 'half': must be a number of pods"),
        ("maxUnavailable: -5%", "spec.maxUnavailable", "Invalid value: '-5%'"),
        (
            "maxUnavailable: 1.5",
            "spec.maxUnavailable",
            "Invalid value: 1.5: must be an integer or a percentage (such as 50%)",
        ),
        (
            "minAvailable: [1]",
            "spec.minAvailable",
            "Invalid value: [1]: must be an integer or a percentage (such as 50%)",
        ),
        ("selector: {matchExpressions: [{key: a, operator: Is}]}", "spec.selector.matchExpressions[0].operator", "Is"),
        ("selector: web", "spec.selector", "Invalid value: 'web': must be a mapping"),
    ],
)
def test_bad_budgets(refusal, spec, field, piece):
    found = refusal(f"{BUDGET}spec: {{{spec}}}")
    assert found[:2] == ("PodDisruptionBudget/ns/b", field)
    assert piece in found[2]


@pytest.mark.parametrize(("policy", "expected"), [("", None), ("Never", False), ("PreemptLowerPriority", True)])
def test_whether_a_pod_preempts(describe, policy, expected):
    assert describe(f"{POD}metadata: {{name: p}}\nspec: {{preemptionPolicy: '{policy}'}}").preempts is expected


def test_a_policy_that_nobody_knows(refusal):
    found = refusal(f"{POD}metadata: {{name: p}}\nspec: {{preemptionPolicy: never}}")
    assert found[:2] == ("Pod/default/p", "spec.preemptionPolicy")
    assert found[2] == "Unsupported value: 'never': supported values: PreemptLowerPriority, Never"


@pytest.mark.parametrize(
    ("annotations", "wait"),
    [
        ("{}", None),
        ("{sla-waiting-time: ''}", None),
        ("{sla-waiting-time: 90s}", 90 * SECOND),
        ("{sla-waiting-time: 1d}", 86_400 * SECOND),
        ("{sla-waiting-time: 2m, volcano.sh/sla-waiting-time: 1m}", 60 * SECOND),
    ],
)
def test_longest_wait_is_read_from_sla_annotation(describe, annotations, wait):
    assert describe(f"{GROUP}metadata: {{name: pg, annotations: {annotations}}}").longest_wait == wait


@pytest.mark.parametrize("written", ["soon", "'30'", "0s", "-5m"])
def test_bad_waiting_times(refusal, written):
    found = refusal(f"{GROUP}metadata: {{name: pg, annotations: {{sla-waiting-time: {written}}}}}")
    assert found[:2] == ("PodGroup/default/pg", "metadata.annotations[sla-waiting-time]")
    assert "such as 90s" in found[2]


def test_whether_a_group_is_preemptable_is_yes_unless_it_says_no(describe, refusal):
    def group(place, value):
        return f"{GROUP}metadata: {{name: pg, {place}: {{volcano.sh/preemptable: {value}}}}}"

    assert describe(GROUP + "metadata: {name: pg}").preemptable is True
    assert describe(group("annotations", "'true'")).preemptable is True
    assert describe(group("annotations", "'false'")).preemptable is False
    assert describe(group("labels", "'false'")).preemptable is False
    assert refusal(group("labels", "no way")) == (
        "PodGroup/default/pg",
        "metadata.labels[volcano.sh/preemptable]",
        "Invalid value: 'no way': must be 'true' or 'false'",
    )
