"""Pods as tasks: request, job, role, status, and whose they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.label_selector import Requirement
from kubebase.resource_vector import Registry, ResourceError
from pumice.kube.decode import api_types
from pumice.kube.decode.pods import _whole_request, request_of
from pumice.model.specs import FREE, Constraints, PodTerm, TaskSpec, TaskStatus

HEAD = "apiVersion: v1\nkind: Pod\n"
GI = 2**30


def test_pod(describe):
    assert describe(
        HEAD
        + """
metadata:
  name: train-worker-0
  namespace: ml
  labels: {app: train}
  annotations:
    scheduling.k8s.io/group-name: train
    volcano.sh/task-spec: worker
    volcano.sh/preemptable: "false"
  creationTimestamp: "1970-01-01T00:00:02Z"
spec:
  schedulerName: volcano
  priority: 7
  priorityClassName: high
  preemptionPolicy: Never
  nodeName: gpu-1
  containers:
  - {name: main, image: train, resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {nvidia.com/gpu: 1}}}
status: {phase: Running, startTime: "1970-01-01T00:00:03.5Z"}
"""
    ) == TaskSpec(
        namespace="ml",
        name="train-worker-0",
        request=(500, GI, 1, 1000),
        job="ml/train",
        created=2_000_000,
        role="worker",
        priority=7,
        priority_class="high",
        node="gpu-1",
        status=TaskStatus.RUNNING,
        started=3_500_000,
        labels={"app": "train"},
        managed=True,
        preemptable=False,
        preempts=False,
    )


@pytest.mark.parametrize(
    ("status", "started"),
    [
        ("{}", 0),
        ('{startTime: "1970-01-01T00:00:09Z"}', 9),
        ('{conditions: [{type: PodScheduled, status: "True", lastTransitionTime: "1970-01-01T00:00:07Z"}]}', 7),
        (
            '{startTime: "1970-01-01T00:00:01Z", conditions: [{type: Ready, status: "True"}, '
            '{type: PodScheduled, status: "True", lastTransitionTime: "1970-01-01T00:00:07Z"}]}',
            7,
        ),
        ('{conditions: [{type: PodScheduled, status: "False", lastTransitionTime: "1970-01-01T00:00:07Z"}]}', 0),
        ('{startTime: "1970-01-01T00:00:09Z", conditions: [{type: PodScheduled, status: "True"}]}', 9),
    ],
)
def test_started_is_when_the_api_server_bound_it_not_what_a_kubelet_reads_from_its_clock(describe, status, started):
    pod = describe(HEAD + f"metadata: {{name: p}}\nspec: {{nodeName: n}}\nstatus: {status}")
    assert pod.started == started * 1_000_000


def test_pod_of_few_words(describe):
    pod = describe(HEAD + "metadata: {name: p}", created=4)
    assert pod == TaskSpec("default", "p", (0, 0, 1), created=4)
    assert pod.constraints is FREE


def test_request_counts_sidecars_init_containers_overhead_and_limits(describe):
    # up: 1 (app, by its limit) + 200m (sidecar) = 1200m; starting: sidecar + 2 (init) = 2200m; overhead 50m
    # memory: the app's 1Gi + overhead 128Mi
    pod = describe(
        HEAD
        + """
metadata: {name: p}
spec:
  overhead: {cpu: 50m, memory: 128Mi}
  initContainers:
  - {name: proxy, restartPolicy: Always, resources: {requests: {cpu: 200m}}}
  - {name: fetch, resources: {requests: {cpu: 2}}}
  containers:
  - {name: main, resources: {limits: {cpu: 1, memory: 1Gi}, requests: , claims: [{name: gpu}]}}
"""
    )
    assert pod.request == (2250, GI + 128 * 2**20, 1)


@pytest.mark.parametrize(
    ("spec", "allocated", "given", "request_"),
    [
        ("{cpu: 100m, memory: 1Gi}", "{cpu: 1, memory: 1Gi}", "{cpu: 1, memory: 1Gi}", (1200, GI, 1)),  # not shrunk yet
        ("{cpu: 100m, memory: 1Gi}", "{cpu: 100m, memory: 1Gi}", "{cpu: 1, memory: 1Gi}", (1200, GI, 1)),  # under way
        ("{cpu: 2, memory: 1Gi}", "{cpu: 1, memory: 1Gi}", "{cpu: 1, memory: 1Gi}", (2200, GI, 1)),  # not grown yet
        ("{cpu: 100m, memory: 2Gi}", "{cpu: 1, memory: 1Gi}", "", (1200, 2 * GI, 1)),
        ("{cpu: 100m, memory: 1Gi}", "{cpu: 100m, memory: 1Gi}", "{cpu: 100m, memory: 1Gi}", (300, GI, 1)),  # done
        ("{cpu: 100m, memory: 1Gi}", "", "", (300, GI, 1)),
    ],
)
def test_request_is_the_largest_of_spec_and_status_during_a_resize(describe, spec, allocated, given, request_):
    """Beside a sidecar that has 200m, of which 150m are asked for since."""
    pod = describe(
        HEAD
        + f"""
metadata: {{name: p}}
spec:
  nodeName: n
  initContainers: [{{name: proxy, restartPolicy: Always, resources: {{requests: {{cpu: 150m}}}}}}]
  containers: [{{name: main, resources: {{requests: {spec}}}}}]
status:
  phase: Running
  initContainerStatuses: [{{name: proxy, allocatedResources: {{cpu: 200m}}}}]
  containerStatuses:
  - {{name: other, allocatedResources: {{cpu: 9}}}}
  - {{name: main, allocatedResources: {allocated or "{}"}, resources: {{requests: {given or "{}"}}}}}
"""
    )
    assert pod.request == request_


def test_pod_level_request_stands_for_its_containers(describe):
    pod = describe(
        HEAD
        + """
metadata: {name: p}
spec:
  resources: {requests: {cpu: 3}}
  containers: [{resources: {requests: {cpu: 1, memory: 1Gi}}}]
"""
    )
    assert pod.request == (3000, GI, 1)


@pytest.mark.parametrize(
    ("node", "phase", "deleted", "status"),
    [
        ("", "", False, TaskStatus.PENDING),
        ("", "Pending", False, TaskStatus.PENDING),
        ("", "Running", False, TaskStatus.PENDING),
        ("n", "", False, TaskStatus.BOUND),
        ("n", "Pending", False, TaskStatus.BOUND),
        ("n", "Unknown", False, TaskStatus.BOUND),
        ("n", "Running", False, TaskStatus.RUNNING),
        ("n", "Running", True, TaskStatus.RELEASING),
        ("n", "Pending", True, TaskStatus.RELEASING),
        ("", "Pending", True, TaskStatus.FAILED),
        ("n", "Succeeded", False, TaskStatus.SUCCEEDED),
        ("n", "Succeeded", True, TaskStatus.SUCCEEDED),
        ("n", "Failed", False, TaskStatus.FAILED),
    ],
)
def test_status(describe, node, phase, deleted, status):
    metadata = {"name": "p"} | ({"deletionTimestamp": "2024-05-01T12:00:00Z"} if deleted else {})
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    task = describe(pod | {"spec": {"nodeName": node}, "status": {"phase": phase}})
    assert task.status is status
    assert task.node == (node or None)


@pytest.mark.parametrize(
    ("owners", "returns"),
    [([], False), ([{"kind": "PodGroup"}], False), ([{"kind": "PodGroup"}, {"kind": "Job", "controller": True}], True)],
)
def test_pod_returns_if_one_of_its_owners_is_its_controller(describe, owners, returns):
    pod = describe({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "ownerReferences": owners}})
    assert pod.returns is returns


@pytest.mark.parametrize(
    ("annotations", "labels", "role"),
    [
        ({"volcano.sh/task-spec": "ps"}, {"volcano.sh/task-spec": "worker"}, "ps"),
        ({}, {"volcano.sh/task-spec": "worker"}, "worker"),
        ({}, {}, ""),
    ],
)
def test_role_is_an_annotation_or_else_a_label(describe, annotations, labels, role):
    metadata = {"name": "p", "annotations": annotations, "labels": labels}
    assert describe({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}).role == role


@pytest.mark.parametrize(
    ("annotations", "labels", "preemptable"),
    [
        ({}, {}, None),
        ({"volcano.sh/preemptable": "false"}, {"volcano.sh/preemptable": "true"}, False),
        ({}, {"volcano.sh/preemptable": "False"}, False),
        ({"volcano.sh/preemptable": "1"}, {}, True),
    ],
)
def test_preemptable(describe, annotations, labels, preemptable):
    metadata = {"name": "p", "annotations": annotations, "labels": labels}
    assert describe({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}).preemptable is preemptable


# ---- whose it is -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "managed"), [("", True), ("pumice", True), ("volcano", True), ("default-scheduler", False)]
)
def test_a_pod_is_ours_if_it_names_one_of_our_schedulers_or_none(describe, name, managed):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"schedulerName": name}}
    assert describe(pod).managed is managed


def test_a_pod_behind_gates_is_nobodys(describe):
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "ns"}}
    gated = {**pod, "spec": {"schedulerName": "pumice", "schedulingGates": [{"name": "example.com/wait"}]}}
    assert not describe(gated).managed
    assert describe({**pod, "spec": {"schedulerName": "pumice", "schedulingGates": []}}).managed


def test_the_names_of_our_schedulers_can_be_given(describe):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"schedulerName": "volcano"}}
    assert not describe(pod, schedulers=["pumice"]).managed


def test_foreign_pod_keeps_only_host_ports_and_anti_affinity(describe):
    pod = describe(
        HEAD
        + """
metadata: {name: p, namespace: web, labels: {app: db}}
spec:
  schedulerName: default-scheduler
  nodeName: n
  nodeSelector: {zone: a}
  tolerations: [{operator: Exists}]
  containers: [{ports: [{hostPort: 80}]}]
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: zone
        labelSelector: {matchLabels: {app: db}}
        namespaceSelector: {matchLabels: {team: x}}
"""
    )
    assert pod.constraints == Constraints(
        ports=(("TCP", "0.0.0.0", 80),),
        anti_affinity=(PodTerm("zone", (Requirement("app", "In", ("db",)),), namespaces=None),),
    )


def test_a_plain_pod_that_others_place_keeps_nobody_away(describe):
    pod = describe(HEAD + "metadata: {name: p}\nspec: {schedulerName: x, nodeSelector: {zone: a}}")
    assert pod.constraints is FREE


# ---- refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "field", "piece"),
    [
        (
            "status: {phase: Sleeping}",
            "status.phase",
            "Unsupported value: 'Sleeping': supported values: Pending, Running",
        ),
        (
            "status: {startTime: yesterday}",
            "status.startTime",
            "Invalid value: 'yesterday': must be an RFC 3339 timestamp with a time zone",
        ),
        ("spec: {nodeName: 7}", "spec.nodeName", "Invalid value: 7: must be a string; put it in quotes"),
        (
            "spec: {priority: '7'}",
            "spec.priority",
            "Invalid value: '7': must be an integer; write it without quotes",
        ),
        ("spec: {containers: {name: main}}", "spec.containers", "must be a list"),
        ("spec: {containers: [main]}", "spec.containers[0]", "Invalid value: 'main': must be a mapping"),
        (
            "spec: {containers: [{}, {resources: {requests: {cpu: lots}}}]}",
            "spec.containers[1].resources.requests.cpu",
            "'lots' is not a quantity",
        ),
        (
            "spec: {initContainers: [{resources: {limits: {memory: -1}}}]}",
            "spec.initContainers[0].resources.limits.memory",
            "negative",
        ),
        ("spec: {overhead: {cpu: 1 core}}", "spec.overhead.cpu", "'1 core' is not a quantity"),
        ("spec: {resources: {requests: {cpu: x}}}", "spec.resources.requests.cpu", "'x' is not a quantity"),
        (
            "spec: {containers: [{ports: [{hostPort: 70000}]}]}",
            "spec.containers[0].ports[0].hostPort",
            "Invalid value: 70000: must be less than or equal to 65535",
        ),
        (
            "spec: {initContainers: [{restartPolicy: Always, ports: [{hostPort: 1, protocol: ICMP}]}]}",
            "spec.initContainers[0].ports[0].protocol",
            "Unsupported value: 'ICMP': supported values: TCP, UDP, SCTP",
        ),
    ],
)
def test_bad_pods(refusal, part, field, piece):
    found = refusal(f"{HEAD}metadata: {{name: p, namespace: ml}}\n{part}")
    assert found[:2] == ("Pod/ml/p", field)
    assert piece in found[2]


@pytest.mark.parametrize("place", ["annotations", "labels"])
def test_preemptable_is_true_or_false(refusal, place):
    assert refusal(f"{HEAD}metadata: {{name: p, {place}: {{volcano.sh/preemptable: maybe}}}}") == (
        "Pod/default/p",
        f"metadata.{place}[volcano.sh/preemptable]",
        "Invalid value: 'maybe': must be 'true' or 'false'",
    )


@pytest.mark.parametrize(
    ("text", "node", "cards"),
    [("0", "n", (0,)), ("1,3", "n", (1, 3)), ("", "n", ()), ("gpu0", "n", ()), ("0", "", ())],
)
def test_cards_of_a_pod_on_a_node(describe, text, node, cards):
    head = f"{HEAD}metadata: {{name: p, annotations: {{volcano.sh/gpu-index: '{text}'}}}}\n"
    assert describe(f"{head}spec: {{nodeName: '{node}', containers: []}}").cards == cards


QUANTITIES = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "example.com/card"]),
    st.sampled_from(["1", "500m", "2Gi", "-1", "much", 3, 0.5]),
    max_size=3,
)
RESOURCES = st.builds(api_types.Resources, QUANTITIES, QUANTITIES)
CONTAINERS = st.lists(
    st.builds(api_types.Container, name=st.sampled_from(["a", "b"]), resources=RESOURCES), max_size=2
).map(tuple)
STATUSES = st.lists(
    st.builds(
        api_types.ContainerStatus,
        name=st.sampled_from(["a", "b", "c"]),
        allocated_resources=st.none() | QUANTITIES,
        resources=st.none() | st.builds(api_types.ActualResources, requests=QUANTITIES),
    ),
    max_size=2,
).map(tuple)
PODS = st.builds(
    api_types.Pod,
    spec=st.builds(
        api_types.PodSpec,
        containers=CONTAINERS,
        init_containers=st.just(()) | CONTAINERS,
        overhead=st.just({}) | QUANTITIES,
        resources=st.none() | RESOURCES,
    ),
    status=st.builds(api_types.PodStatus, container_statuses=st.just(()) | STATUSES),
)


@given(st.lists(PODS, min_size=1, max_size=4))
def test_a_cached_request_is_the_one_that_was_counted(pods):
    # The two registries learn the resources in the same order, whatever the cache holds.
    quick, slow = Registry(), Registry()

    def counted(count, pod, registry):
        try:
            return count(pod, registry)
        except ResourceError as error:
            return str(error)

    for pod in [*pods, *pods]:
        assert counted(request_of, pod, quick) == counted(_whole_request, pod, slow)
        assert quick.names == slow.names
