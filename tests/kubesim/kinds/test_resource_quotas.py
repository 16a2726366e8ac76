"""Resource quotas, as a real kube-apiserver 1.36 answers."""

import pytest

from kubesim.kinds.resource_quotas import resource_quotas
from tests.kubesim.kinds.strategy_writes import cells, create, headings, named, rejection_message, update

RESOURCE = resource_quotas()


def quota(**spec: object) -> dict[str, object]:
    return named("q", spec=spec)


def test_amounts_are_written_in_one_way() -> None:
    hard = {"cpu": "1.5", "memory": "0.5Gi", "pods": 2, "volcano.sh/namespace.weight": "3"}
    found = create(RESOURCE, quota(hard=hard))
    assert found["spec"]["hard"] == {
        "cpu": "1500m",
        "memory": "512Mi",
        "pods": "2",
        "volcano.sh/namespace.weight": "3",
    }
    assert found["status"] == {}
    assert update(RESOURCE, found, {"spec": {"hard": {"cpu": "0.5"}}})["spec"]["hard"]["cpu"] == "500m"


@pytest.mark.parametrize(
    ("hard", "words"),
    [
        ({"cpu": "-1"}, 'spec.hard[cpu]: Invalid value: "-1": must be greater than or equal to 0'),
        ({"pods": "1.5"}, 'spec.hard[pods]: Invalid value: "1500m": must be an integer'),
        ({"foo": "1"}, 'spec.hard[foo]: Invalid value: "foo": must be a standard resource type or fully qualified'),
        ({"Bad/_x": "1"}, 'spec.hard[Bad/_x]: Invalid value: "Bad/_x": prefix part a lowercase RFC 1123 subdomain'),
    ],
)
def test_amounts_refused(hard: dict[str, str], words: str) -> None:
    assert words in rejection_message(create, RESOURCE, quota(hard=hard))


def test_resources_with_a_domain_are_accepted() -> None:
    hard = {"requests.nvidia.com/gpu": "3", "count/jobs.batch": "2", "nvidia.com/gpu": "1", "requests.storage": "1Ti"}
    assert create(RESOURCE, quota(hard=hard))["spec"]["hard"] == hard


def test_devices_and_counts_may_stand_under_any_scope() -> None:
    hard = {"requests.nvidia.com/gpu": "3", "count/pods": "2", "pods": "1"}
    assert create(RESOURCE, quota(hard=hard, scopes=["PriorityClass"]))["spec"]["hard"] == hard


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"scopes": ["Foo"]}, 'spec.scopes: Invalid value: ["Foo"]: unsupported scope'),
        (
            {"scopes": ["BestEffort"], "hard": {"cpu": "1"}},
            'spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource',
        ),
        ({"scopes": ["Terminating"], "hard": {"ephemeral-storage": "1"}}, "unsupported scope applied to resource"),
        ({"scopes": ["VolumeAttributesClass"], "hard": {"pods": "1"}}, "unsupported scope applied to resource"),
        ({"scopes": ["Terminating", "NotTerminating"]}, "conflicting scopes"),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}},
            "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when",
        ),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "X", "operator": "Exists"}]}},
            'spec.scopeSelector.matchExpressions.scopeName: Invalid value: "X": unsupported scope',
        ),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "Terminating", "operator": "In", "values": ["a"]}]}},
            "scopeSelector.matchExpressions.operator: Invalid value: \"In\": must be 'Exists' when scope is any of",
        ),
    ],
)
def test_scopes_refused(spec: dict[str, object], words: str) -> None:
    assert words in rejection_message(create, RESOURCE, quota(**spec))


def test_scopes_stay() -> None:
    found = create(RESOURCE, quota(hard={"pods": "1"}))
    assert "field is immutable" in rejection_message(update, RESOURCE, found, {"spec": {"scopes": ["BestEffort"]}})


def test_columns_show_what_is_used() -> None:
    assert headings(RESOURCE) == [
        ("Name", "string", 0),
        ("Request", "string", 0),
        ("Limit", "string", 0),
        ("Age", "string", 0),
    ]
    found = create(RESOURCE, quota(hard={"pods": "10", "limits.cpu": "3", "requests.cpu": "4"}))
    assert cells(RESOURCE, found)[:3] == ["q", "", ""]
    status = {"hard": found["spec"]["hard"], "used": {"pods": "3", "limits.cpu": "500m"}}
    found = update(RESOURCE, found, {"status": status}, sub="status")
    assert cells(RESOURCE, found)[:3] == ["q", "pods: 3/10, requests.cpu: 0/4", "limits.cpu: 500m/3"]
