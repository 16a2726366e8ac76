"""What may change in a pod, as a real kube-apiserver 1.36 answers."""

from typing import Any

import pytest

from kubesim.kinds.pods.updates import IMMUTABLE, check_spec_update
from kubesim.registry.registry import Object
from tests.kubesim.kinds.pods.pod_specs import RESOURCE, container, created, pod
from tests.kubesim.kinds.strategy_writes import rejection_message, update

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SHUFFLED = "Forbidden: pod updates may not add or remove containers"
TOLERATED = "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
OWN = {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}


def _old(**spec: Any) -> Object:
    return created(tolerations=[OWN], nodeSelector={"a": "b"}, activeDeadlineSeconds=5, **spec)


def _needs(*keys: str) -> Object:
    expressions = [{"key": key, "operator": "Exists"} for key in keys]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}}}


@pytest.mark.parametrize(
    "change",
    [
        {"containers": [container(image="busybox:2")]},
        {"activeDeadlineSeconds": 4},
        {"tolerations": [*_old()["spec"]["tolerations"], {"key": "z", "operator": "Exists"}]},
        {"tolerations": [{**OWN, "tolerationSeconds": 9}, *_old()["spec"]["tolerations"][1:]]},
        {"tolerations": [OWN]},  # those that every pod is given come back by themselves
        {"priority": None, "preemptionPolicy": None},
        {"restartPolicy": None, "dnsPolicy": None, "securityContext": None},
        {"hostNetwork": False, "nodeName": "", "volumes": []},
    ],
)
def test_allowed(change: Object) -> None:
    old = _old()
    assert update(RESOURCE, old, {"spec": change})["spec"].keys() == old["spec"].keys()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"containers": [container(), container("d")]}, f"spec.containers: {SHUFFLED}"),
        ({"initContainers": [container("d")]}, f"spec.initContainers: {SHUFFLED}"),
        ({"containers": [container(image="")]}, "spec.containers[0].image: Required value"),
        (
            {"activeDeadlineSeconds": 6},
            "spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value",
        ),
        (
            {"activeDeadlineSeconds": None},
            "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value",
        ),
        ({"tolerations": None}, TOLERATED),
        ({"tolerations": [{**OWN, "key": "b"}]}, TOLERATED),
        (
            {"schedulingGates": [{"name": "n"}]},
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'n'",
        ),
    ],
)
def test_refused(change: Object, words: str) -> None:
    assert rejection_message(update, RESOURCE, _old(), {"spec": change}) == f'422 Pod "p" is invalid: {words}'


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"nodeName": "x"}, 'spec.nodeName: unset -> "x"'),
        ({"containers": [container(command=["x"])]}, 'spec.containers[0].command: unset -> ["x"]'),
        ({"containers": [container("d")]}, 'spec.containers[0].name: "c" -> "d"'),
        ({"terminationGracePeriodSeconds": 1}, "spec.terminationGracePeriodSeconds: 30 -> 1"),
        ({"priority": 3}, "spec.priority: 0 -> 3"),
        ({"nodeSelector": {"x": "y"}}, 'spec.nodeSelector.x: unset -> "y"'),
        ({"hostNetwork": True}, "spec.hostNetwork: unset -> true"),
        ({"schedulerName": "x"}, 'spec.schedulerName: "default-scheduler" -> "x"'),
        (
            {"containers": [container(resources={"requests": {"cpu": "1"}})]},
            'spec.containers[0].resources.requests: unset -> {"cpu":"1"}',
        ),
    ],
)
def test_other_pod_spec_fields_are_immutable(change: Object, line: str) -> None:
    words = rejection_message(update, RESOURCE, _old(), {"spec": change})
    assert words == f'422 Pod "p" is invalid: spec: Forbidden: {IMMUTABLE}\n  {line}'


def test_many_changes_are_not_all_told() -> None:
    old = created(nodeSelector={f"k{index:02}": "a" for index in range(20)})
    new = {**old["spec"], "nodeSelector": {f"k{index:02}": "b" for index in range(20)}}
    (problem,) = check_spec_update(new, old["spec"])
    lines = problem.detail.splitlines()
    assert (len(lines), lines[1], lines[-1]) == (12, '  spec.nodeSelector.k00: "a" -> "b"', "...")


def test_a_manifest_applied_again_changes_nothing() -> None:
    old = created(container(resources={"limits": {"cpu": "1000m"}}))
    asked = pod(container(resources={"limits": {"cpu": "1"}}))["spec"]
    new = {**old, "spec": {**asked, "serviceAccountName": "default"}}
    RESOURCE.strategy.prepare(new)
    RESOURCE.strategy.on_update(new, old, None)  # type: ignore[arg-type]  # an update asks nobody
    assert new == old


def test_a_grace_that_was_negative_may_become_one() -> None:
    old = created()["spec"]
    assert not list(
        check_spec_update({**old, "terminationGracePeriodSeconds": 1}, {**old, "terminationGracePeriodSeconds": -1})
    )


# ---- gates ------------------------------------------------------------------------------------------------

GATES: dict[str, Any] = {"schedulingGates": [{"name": "x"}, {"name": "y"}]}


@pytest.mark.parametrize(
    "change",
    [
        {"schedulingGates": [{"name": "y"}]},
        {"schedulingGates": None},
        {"nodeSelector": {"x": "y"}},
        _needs("a", "b"),
        {
            "affinity": {
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "preference": {"matchExpressions": [{"key": "b", "operator": "Exists"}]}}
                    ]
                }
            }
        },
        {"schedulingGates": None, "nodeSelector": {"x": "y"}},
    ],
)
def test_while_gated(change: Object) -> None:
    update(RESOURCE, created(nodeSelector={"a": "b"}, **_needs("a"), **GATES), {"spec": change})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"nodeSelector": {"a": "c"}},
            'spec.nodeSelector: Invalid value: {"a":"c"}: only additions to spec.nodeSelector are allowed '
            "(no mutations or deletions)",
        ),
        (
            _needs("b"),
            f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0]: Invalid value: "
            '{"matchExpressions":[{"key":"b","operator":"Exists"}]}: only additions are allowed (no mutations or '
            "deletions)",
        ),
        (
            {"affinity": None},
            f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms: Invalid value: null: no additions/deletions to "
            "non-empty NodeSelectorTerms list are allowed",
        ),
        (
            {"schedulingGates": [{"name": "x"}, {"name": "n"}]},
            "spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new scheduling gate 'n'",
        ),
    ],
)
def test_gated_pods_only_get_narrower(change: Object, words: str) -> None:
    old = created(nodeSelector={"a": "b"}, **_needs("a"), **GATES)
    assert rejection_message(update, RESOURCE, old, {"spec": change}) == f'422 Pod "p" is invalid: {words}'


def test_pod_affinity_is_for_good_even_while_gated() -> None:
    change = {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "a"}]}}}
    words = rejection_message(update, RESOURCE, created(**GATES), {"spec": change})
    assert words.startswith(f'422 Pod "p" is invalid: spec: Forbidden: {IMMUTABLE}\n')
