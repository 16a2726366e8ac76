"""Pod disruption budgets, leases and accounts, as a real kube-apiserver 1.36 answers."""

import pytest

from kubesim.kinds.leases import leases
from kubesim.kinds.pod_disruption_budgets import pod_disruption_budgets
from kubesim.kinds.service_accounts import service_accounts
from tests.kubesim.kinds.strategy_writes import cells, create, named, rejection_message, update

RESOURCE = pod_disruption_budgets()


def budget(**spec: object) -> dict[str, object]:
    return named("b", spec=spec)


def test_a_new_budget_knows_nothing() -> None:
    found = create(RESOURCE, {**budget(minAvailable=1), "status": {"currentHealthy": 5}})
    assert found["status"] == {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    assert found["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"minAvailable": 1, "maxUnavailable": "5%"}, "minAvailable and maxUnavailable cannot be both set"),
        ({"minAvailable": "x"}, 'spec.minAvailable: Invalid value: "x": a valid percent string must be'),
        ({"minAvailable": -1}, "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"),
        ({"maxUnavailable": "101%"}, 'spec.maxUnavailable: Invalid value: "101%": must not be greater than 100%'),
        (
            {"unhealthyPodEvictionPolicy": "x"},
            'EvictionPolicy: Unsupported value: "x": supported values: "AlwaysAllow", "IfHealthyBudget"',
        ),
        (
            {"selector": {"matchLabels": {"a b": "c d"}}},
            'spec.selector.matchLabels: Invalid value: "a b": name part must consist of',
        ),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or",
        ),
        (
            {"selector": {"matchExpressions": [{"key": "", "operator": "X"}]}},
            'spec.selector.matchExpressions[0].operator: Invalid value: "X": not a valid selector operator',
        ),
        (
            {"selector": {"matchExpressions": [{"key": "b", "operator": "Exists", "values": ["1"]}]}},
            "spec.selector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or",
        ),
    ],
)
def test_refused(spec: dict[str, object], words: str) -> None:
    assert words in rejection_message(create, RESOURCE, budget(**spec))


def test_a_status_that_cannot_be() -> None:
    found = create(RESOURCE, budget(minAvailable=1))
    assert "status.currentHealthy: Invalid value: -2: must be greater than or equal to 0" in (
        rejection_message(update, RESOURCE, found, {"status": {"currentHealthy": -2}}, sub="status")
    )
    words = rejection_message(
        update, RESOURCE, found, {"status": {"conditions": [{"type": "A", "status": "True"}]}}, sub="status"
    )
    assert "status.conditions[0].lastTransitionTime: Required value" in words
    assert "status.conditions[0].reason: Required value" in words


def test_columns() -> None:
    assert cells(RESOURCE, create(RESOURCE, budget(minAvailable=1)))[:4] == ["b", "1", "N/A", 0]
    assert cells(RESOURCE, create(RESOURCE, budget(maxUnavailable="20%")))[:4] == ["b", "N/A", "20%", 0]


def test_leases() -> None:
    resource = leases()
    assert not resource.strategy.unconditional
    spec = {"leaseDurationSeconds": 0, "leaseTransitions": -1}
    assert rejection_message(create, resource, named(spec=spec)) == (
        '422 Lease.coordination.k8s.io "it" is invalid: '
        "[spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0, "
        "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0]"
    )
    found = create(resource, named(spec={"holderIdentity": "me", "renewTime": "2026-11-15T12:00:00.123456Z"}))
    assert cells(resource, found)[:2] == ["it", "me"]


def test_service_accounts() -> None:
    resource = service_accounts()
    fields = {"secrets": [{"name": "a"}], "imagePullSecrets": [{"name": "b"}], "automountServiceAccountToken": False}
    found = create(resource, named(**fields))
    assert {key: found[key] for key in fields} == fields
    assert resource.strategy.returns_deleted
