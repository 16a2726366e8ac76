"""What a new pod is given, as a real kube-apiserver 1.36 gives it."""

from typing import Any

import pytest

from kubesim.api.status import ApiError
from kubesim.kinds.pods.defaults import default_pod_spec, pull_policy
from kubesim.kinds.pods.resources import quality
from kubesim.registry.registry import Object
from tests.kubesim.kinds.pods.pod_specs import RESOURCE, container, created, pod
from tests.kubesim.kinds.strategy_writes import NOW, FakeContext, create, rejection_message

CLASSES = "priorityclasses.scheduling.k8s.io"
GIVEN = [
    {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for taint in ("not-ready", "unreachable")
]


def test_a_plain_pod() -> None:
    found = created(container(image="busybox"))
    assert found["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "busybox",
                "imagePullPolicy": "Always",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
        "tolerations": GIVEN,
    }
    assert found["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert found["metadata"]["generation"] == 1


def test_empty_pod_fields_are_removed() -> None:
    plain = created()
    empty = created(
        container(stdin=False, command=[], workingDir=""),
        restartPolicy="", nodeName="", hostNetwork=False, tolerations=[], nodeSelector={}, overhead={}, volumes=[],
    )  # fmt: skip
    assert empty["spec"] == plain["spec"]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1", "IfNotPresent"),
        ("registry:5000/a/b", "Always"),
        ("registry:5000/a/b:2", "IfNotPresent"),
        ("a@sha256:" + "0" * 64, "IfNotPresent"),
        ("a:latest@sha256:" + "0" * 64, "IfNotPresent"),
    ],
)
def test_pull_policy(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def test_requests_follow_limits_and_amounts_are_canonical() -> None:
    asked = {"limits": {"cpu": 0.5, "memory": "1024Mi", "nvidia.com/gpu": 1}, "requests": {"memory": "512Mi"}}
    found = created(container(resources=asked))["spec"]["containers"][0]["resources"]
    assert found == {
        "limits": {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1"},
        "requests": {"cpu": "500m", "memory": "512Mi", "nvidia.com/gpu": "1"},
    }


def test_a_template_keeps_its_limits_and_gets_no_requests() -> None:
    pod = {"containers": [{"name": "main", "image": "a:1", "resources": {"limits": {"cpu": 0.5}}}]}
    default_pod_spec(pod, "ReplicaSet")
    assert pod["containers"][0]["resources"] == {"limits": {"cpu": "500m"}}
    assert "enableServiceLinks" not in pod


@pytest.mark.parametrize(
    ("resources", "initial", "expected"),
    [
        ([{}], [], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], [], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}], [], "Guaranteed"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "0"}}], [], "Burstable"),
        ([{"limits": {"cpu": "1"}}], [], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], [], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}], [{}], "Burstable"),
        ([{"limits": {"nvidia.com/gpu": "1"}}], [], "BestEffort"),
        ([{"limits": {"cpu": "0", "memory": "0"}}], [], "BestEffort"),
    ],
)
def test_quality_of_service(resources: list[Object], initial: list[Object], expected: str) -> None:
    spec = {
        "containers": [container(f"c{index}", resources=asked) for index, asked in enumerate(resources)],
        "initContainers": [container(f"i{index}", resources=asked) for index, asked in enumerate(initial)],
    }
    default_pod_spec(spec)
    assert quality(spec) == expected


def test_quality_of_a_pod_with_resources_of_its_own() -> None:
    whole = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    assert quality({"containers": [{"resources": {}}], "resources": whole}) == "Guaranteed"


def test_probes_ports_and_references() -> None:
    found = created(
        container(
            ports=[{"containerPort": 80}],
            livenessProbe={"httpGet": {"port": 80}},
            lifecycle={"preStop": {"httpGet": {"port": "x"}}},
            env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        ),
        hostNetwork=True,
    )["spec"]["containers"][0]
    assert found["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]
    request = {"path": "/", "scheme": "HTTP"}
    assert found["livenessProbe"] == {
        "httpGet": {"port": 80, **request},
        "failureThreshold": 3,
        "periodSeconds": 10,
        "successThreshold": 1,
        "timeoutSeconds": 1,
    }
    assert found["lifecycle"] == {"preStop": {"httpGet": {"port": "x", **request}}}
    assert found["env"][0]["valueFrom"]["fieldRef"] == {"apiVersion": "v1", "fieldPath": "metadata.name"}


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({}, {"emptyDir": {}}),
        ({"configMap": {"name": "x"}}, {"configMap": {"name": "x", "defaultMode": 420}}),
        ({"secret": {"secretName": "x"}}, {"secret": {"secretName": "x", "defaultMode": 420}}),
        ({"hostPath": {"path": "/x"}}, {"hostPath": {"path": "/x", "type": ""}}),
        ({"emptyDir": {"sizeLimit": "1024Mi"}}, {"emptyDir": {"sizeLimit": "1Gi"}}),
        ({"image": {"reference": "a:1"}}, {"image": {"reference": "a:1", "pullPolicy": "IfNotPresent"}}),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {
                "projected": {
                    "defaultMode": 420,
                    "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
                }
            },
        ),
        (
            {"downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            {
                "downwardAPI": {
                    "defaultMode": 420,
                    "items": [{"path": "x", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}}],
                }
            },
        ),
    ],
)
def test_volumes(volume: Object, expected: Object) -> None:
    assert created(volumes=[{"name": "v", **volume}])["spec"]["volumes"] == [{"name": "v", **expected}]


def test_tolerations_of_lost_nodes_are_left_alone_where_the_pod_has_its_own() -> None:
    everything = {"operator": "Exists"}
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    other = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}
    assert created(tolerations=[everything])["spec"]["tolerations"] == [everything]
    assert created(tolerations=[own])["spec"]["tolerations"] == [own, GIVEN[1]]
    assert created(tolerations=[other])["spec"]["tolerations"] == [other, *GIVEN]


def test_a_gated_pod_says_so() -> None:
    assert created(schedulingGates=[{"name": "x"}])["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastTransitionTime": NOW,
        }
    ]


def test_a_negative_grace_is_one_second() -> None:
    assert created(terminationGracePeriodSeconds=-5)["spec"]["terminationGracePeriodSeconds"] == 1


def test_a_status_that_comes_along_is_not_kept() -> None:
    assert create(RESOURCE, {**pod(), "status": {"phase": "Running"}})["status"]["phase"] == "Pending"


# ---- priority and account ---------------------------------------------------------------------------------


def _classes(*classes: tuple[str, int, dict[str, Any]]) -> FakeContext:
    found = [{"metadata": {"name": name}, "value": value, **extra} for name, value, extra in classes]
    return FakeContext(*found, resource=CLASSES)


def test_priority_of_a_class() -> None:
    world = _classes(("high", 1000, {"preemptionPolicy": "Never"}))
    spec = created(world=world, priorityClassName="high", priority=1000)["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")


def test_priority_of_pods_that_name_no_class_is_that_of_the_lowest_default() -> None:
    world = _classes(
        ("b", 30, {"globalDefault": True}), ("a", 20, {"globalDefault": True}), ("c", 10, {"globalDefault": False})
    )
    spec = created(world=world)["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("a", 20)


def test_system_classes_are_always_there() -> None:
    assert created(priorityClassName="system-node-critical")["spec"]["priority"] == 2_000_001_000


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
        (
            {"priority": 5},
            "the integer value of priority (5) must not be provided in pod spec; priority admission controller "
            "computed 0 from the given PriorityClass name",
        ),
        (
            {"preemptionPolicy": "Never"},
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission "
            "controller computed PreemptLowerPriority from the given PriorityClass name",
        ),
        (
            {"serviceAccountName": "nobody"},
            'error looking up service account default/nobody: serviceaccount "nobody" not found',
        ),
    ],
)
def test_what_the_cluster_refuses(spec: Object, words: str) -> None:
    assert rejection_message(created, **spec) == f'403 pods "p" is forbidden: {words}'


def test_a_named_account_must_be_there() -> None:
    world = FakeContext({"metadata": {"name": "robot"}}, resource="serviceaccounts")
    spec = created(world=world, serviceAccount="robot")["spec"]
    assert (spec["serviceAccount"], spec["serviceAccountName"]) == ("robot", "robot")


def test_invalid_quantity_in_pod_spec_is_rejected() -> None:
    spec: Object = {"containers": [container(resources={"requests": {"cpu": "x"}})]}
    with pytest.raises(ApiError, match='Job in version "v1" cannot be handled as a Job: quantities must match'):
        default_pod_spec(spec, "Job")


def test_completing_twice_changes_nothing() -> None:
    found = created(
        container(resources={"limits": {"cpu": "1000m"}}, ports=[{"containerPort": 1}]),
        volumes=[{"name": "v"}],
        initContainers=[container("i", readinessProbe={"exec": {"command": ["x"]}}, restartPolicy="Always")],
    )
    again = {**pod(), "spec": found["spec"]}
    assert create(RESOURCE, again)["spec"] == found["spec"]
