"""What is wrong with pods, in the words of a real kube-apiserver 1.36 (``pod_answers.yaml``)."""

from pathlib import Path
from typing import Any

import pytest

from kubesim.api import metadata
from kubesim.api.status import ApiError
from kubesim.kinds.pods import names
from kubesim.kinds.pods.validation import check_pod_spec
from kubesim.registry.registry import Object
from tests.kubesim.kinds.pods.pod_specs import RESOURCE, container, created
from tests.kubesim.kinds.strategy_writes import create
from tests.support.case_files import read_yaml

RULES = {
    "<label>": metadata.LABEL_RULE,
    "<subdomain>": metadata.SUBDOMAIN_RULE,
    "<search>": names.SEARCH_RULE,
    "<key>": names.KEY_RULE,
    "<variable>": names.VARIABLE_RULE,
    "<qualified>": (
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
        "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
        "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
    ),
    "<value>": (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
        "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
        "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
    ),
}
ANSWERS: dict[str, Any] = read_yaml(Path(__file__).with_name("pod_answers.yaml"))


@pytest.mark.parametrize("case", ANSWERS)
def test_refused_as_the_real_server_does(case: str) -> None:
    spec, why = ANSWERS[case]["spec"], ANSWERS[case]["why"]
    expected = {_written_out(reason) for reason in ([why] if isinstance(why, str) else why)}
    with pytest.raises(ApiError) as refused:
        create(RESOURCE, {"metadata": {"name": "p"}, "spec": spec})
    if refused.value.code == 422:
        causes = refused.value.details["causes"]
        assert {f"{cause['field']}: {cause['message']}" for cause in causes} == expected
    else:
        assert {refused.value.message} == expected


def _written_out(reason: str) -> str:
    for short, rule in RULES.items():
        reason = reason.replace(short, rule)
    return reason


@pytest.mark.parametrize(
    "spec",
    [
        {"hostPID": True},
        {"tolerations": [{"operator": "Exists"}]},
        {"tolerations": [{"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5}]},
        {"schedulerName": "any thing"},
        {"os": {"name": "linux"}},
        {"imagePullSecrets": [{"name": ""}]},
        {"volumes": [{"name": "v", "projected": {}}]},
        {"volumes": [{"name": "v", "cephfs": {"monitors": ["a"]}}]},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}}},
        {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"]}},
        {"initContainers": [container("i", restartPolicy="Always", livenessProbe={"exec": {"command": ["a"]}})]},
        {"overhead": {"cpu": "100m"}},
        {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}},
    ],
)
def test_accepted_as_the_real_server_does(spec: Object) -> None:
    created(**spec)


@pytest.mark.parametrize(
    "fields",
    [
        {"ports": [{"containerPort": 80}, {"containerPort": 80}]},
        {"env": [{"name": "1 2"}, {"name": "1 2", "value": "twice"}]},
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['x']"}}}]},
        {"resources": {"requests": {"kubernetes.io/foo": 1, "memory": "100m"}}},
        {"resources": {"limits": {"hugepages-2Mi": "4Mi", "cpu": 1}}},
        {"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In"}}]},
        {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]},
    ],
)
def test_containers_accepted_as_the_real_server_does(fields: Object) -> None:
    created(container(**fields))


def test_a_volume_that_is_not_there() -> None:
    mount = {"name": "x", "mountPath": "/a"}
    with pytest.raises(ApiError) as refused:
        created(container(volumeMounts=[mount]))
    (cause,) = refused.value.details["causes"]
    assert cause["field"] == "spec.containers[0].volumeMounts[0].name"
    created(container(volumeMounts=[mount]), volumes=[{"name": "x"}])


def test_a_template_is_checked_under_its_own_path() -> None:
    spec = created()["spec"]
    spec["containers"][0]["image"] = ""
    assert [str(problem) for problem in check_pod_spec(spec, "spec.template.spec")] == [
        "spec.template.spec.containers[0].image: Required value"
    ]
