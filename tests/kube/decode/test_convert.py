"""Kinds and names, nodes, quotas, priority classes and pod groups."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.label_selector import Requirement
from kubebase.resource_vector import Registry
from pumice.kube.decode.convert import UNLIMITED_PODS, decode
from pumice.kube.decode.manifest_errors import ObjectError
from pumice.model.hyper_nodes import HyperNode, HyperNodeMember, NetworkTopology
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, PriorityClass, Quota, Taint

SECOND = 10**6


# ---- which object it is ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("manifest", "subject", "field", "piece"),
    [
        (
            "{apiVersion: v1, kind: Deployment, metadata: {name: a}}",
            "Deployment/a",
            "kind",
            "supported values: HyperNode, Namespace",
        ),
        ("{apiVersion: v1, metadata: {name: a}}", "?/a", "kind", "Unsupported value: null"),
        ("{apiVersion: v1, kind: [Pod]}", "['Pod']/?", "kind", "Unsupported value: ['Pod']"),
        (
            "{apiVersion: scheduling.volcano.sh/v1alpha1, kind: Queue, metadata: {name: dev}}",
            "Queue/dev",
            "apiVersion",
            (
                "Unsupported value for Queue: 'scheduling.volcano.sh/v1alpha1': supported values: "
                "scheduling.volcano.sh/v1beta1"
            ),
        ),
        (
            "{kind: Pod, metadata: {name: a}}",
            "Pod/default/a",
            "apiVersion",
            "Unsupported value for Pod: null: supported values: v1",
        ),
        ("{apiVersion: v1, kind: Pod}", "Pod/default/?", "metadata.name", "Required value"),
        ("{apiVersion: v1, kind: Pod, metadata: }", "Pod/default/?", "metadata.name", "Required value"),
        ("{apiVersion: v1, kind: Node, metadata: {name: ''}}", "Node/?", "metadata.name", "Required value"),
        ("{apiVersion: v1, kind: Namespace, metadata: {}}", "Namespace/?", "metadata.name", "Required value"),
        (
            "{apiVersion: v1, kind: Node, metadata: {name: a/b}}",
            "Node/a/b",
            "metadata.name",
            "may not contain '/'",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: n/s}}",
            "Pod/n/s/a",
            "metadata.namespace",
            "may not contain '/'",
        ),
        (
            "{apiVersion: v1, kind: Node, metadata: [a]}",
            "Node/?",
            "metadata",
            "Invalid value: ['a']: must be a mapping",
        ),
    ],
)
def test_an_object_that_cannot_be_told_is_refused(refusal, manifest, subject, field, piece):
    found = refusal(manifest)
    assert found[:2] == (subject, field)
    assert piece in found[2]


def test_a_namespace_tells_the_engine_nothing(describe):
    assert describe("{apiVersion: v1, kind: Namespace, metadata: {name: team}}") is None


# 2024-05-01T12:00:00Z is 19844 days and 12 hours after 1970: 19844 * 86400 + 43200 = 1714564800 s.
@pytest.mark.parametrize(
    ("written", "created"),
    [
        ("", 7),
        ("creationTimestamp:", 7),
        ("creationTimestamp: 2024-05-01T12:00:00Z", 1714564800 * SECOND),
        ("creationTimestamp: '2024-05-01T12:00:00Z'", 1714564800 * SECOND),
        ("creationTimestamp: '2024-05-01T14:00:00+02:00'", 1714564800 * SECOND),
        ("creationTimestamp: '2024-05-01T12:00:00.000123Z'", 1714564800 * SECOND + 123),
        ("creationTimestamp: '1970-01-01T00:00:00Z'", 0),
    ],
)
def test_creation_time(describe, written, created):
    manifest = f"""
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata:
  name: pg
  {written}
"""
    assert describe(manifest, created=7).created == created


@pytest.mark.parametrize("written", ["2024-05-01T12:00:00", "'2024-05-01T12:00:00'", "2024-05-01", "noon", "12", "[]"])
def test_a_time_without_a_zone_or_no_time_is_refused(refusal, written):
    subject, field, message = refusal(
        f"{{apiVersion: v1, kind: Node, metadata: {{name: n, creationTimestamp: {written}}}}}"
    )
    assert (subject, field) == ("Node/n", "metadata.creationTimestamp")
    assert "must be an RFC 3339 timestamp with a time zone (such as 2024-05-01T12:00:00Z)" in message


def test_unread_fields_are_dropped_whatever_they_are(describe):
    node = describe(
        """
apiVersion: v1
kind: Node
metadata: {name: n, uid: 5, managedFields: [{manager: kubelet}]}
spec: {podCIDR: 10.0.0.0/24, providerID: [odd]}
status: {nodeInfo: 7, images: x, conditions: [{type: Ready, status: "True", lastHeartbeatTime: 1}]}
"""
    )
    assert node.name == "n"
    assert node.ready


# ---- nodes -------------------------------------------------------------------------------------------------


def test_node(describe):
    # cpu in milli, memory in bytes, pods in units, gpu in milli
    assert describe(
        """
apiVersion: v1
kind: Node
metadata:
  name: gpu-1
  labels: {kubernetes.io/hostname: gpu-1.example, zone: a}
spec:
  unschedulable: true
  taints:
  - {key: nvidia.com/gpu, value: present, effect: NoSchedule, timeAdded: null}
  - {key: maintenance, effect: NoExecute}
status:
  capacity: {cpu: "64", memory: 256Gi, pods: "110", nvidia.com/gpu: "8"}
  allocatable: {cpu: 63500m, memory: 250Gi, pods: "110", nvidia.com/gpu: "8"}
  conditions:
  - {type: MemoryPressure, status: "False"}
  - {type: Ready, status: "True"}
""",
        created=3,
    ) == NodeSpec(
        name="gpu-1",
        allocatable=(63_500, 250 * 2**30, 110, 8_000),
        created=3,
        labels={"kubernetes.io/hostname": "gpu-1.example", "zone": "a"},
        taints=(Taint("nvidia.com/gpu", "present", "NoSchedule"), Taint("maintenance", "", "NoExecute")),
        unschedulable=True,
        ready=True,
    )


def test_node_of_few_words(describe):
    # no allocatable: the capacity; no pods: any number of them; no hostname label: the name
    node = describe("{apiVersion: v1, kind: Node, metadata: {name: pool}, status: {capacity: {cpu: 10}}}")
    assert node == NodeSpec("pool", (10_000, 0, UNLIMITED_PODS), labels={"kubernetes.io/hostname": "pool"})


def test_explicit_zero_pods_stay_zero(describe):
    node = describe("{apiVersion: v1, kind: Node, metadata: {name: n}, status: {allocatable: {cpu: 1, pods: 0}}}")
    assert node.allocatable == (1000, 0, 0)


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", False)])
def test_node_is_ready_as_its_condition_says(describe, status, ready):
    conditions = [{"type": "Ready", "status": status}]
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"conditions": conditions},
    }
    assert describe(node).ready is ready


@pytest.mark.parametrize(
    ("part", "field", "piece"),
    [
        ("spec: {taints: [{effect: NoSchedule}]}", "spec.taints[0].key", "Required value"),
        (
            "spec: {taints: [{key: a, effect: Never}]}",
            "spec.taints[0].effect",
            "Unsupported value: 'Never': supported values: NoS",
        ),
        ("spec: {taints: {key: a}}", "spec.taints", "Invalid value: {'key': 'a'}: must be a list"),
        ("spec: {taints: [null]}", "spec.taints[0]", "Invalid value: null: must be a mapping"),
        (
            "spec: {unschedulable: 'true'}",
            "spec.unschedulable",
            "must be true or false; write it without quotes",
        ),
        ("status: {allocatable: {cpu: 4 cores}}", "status.allocatable.cpu", "'4 cores' is not a quantity"),
        ("status: {allocatable: {memory: 4GB}}", "status.allocatable.memory", "4G (powers of 1000) or 4Gi"),
        ("status: {capacity: {cpu: [1]}}", "status.capacity.cpu", "is not a quantity"),
        ("status: {capacity: {cpu: -1}}", "status.capacity.cpu", "negative"),
        ("status: {capacity: 5}", "status.capacity", "Invalid value: 5: must be a mapping"),
    ],
)
def test_bad_nodes(refusal, part, field, piece):
    found = refusal(f"apiVersion: v1\nkind: Node\nmetadata: {{name: n}}\n{part}")
    assert found[:2] == ("Node/n", field)
    assert piece in found[2]


@pytest.mark.parametrize(
    ("labels", "field", "piece"),
    [
        (
            "{fine: a, replica: 3, also: b}",
            "metadata.labels[replica]",
            "Invalid value: 3: must be a string; put it in quotes",
        ),
        ("{on: a}", "metadata.labels", "Invalid value: true: must be a string; put it in quotes"),
        ("{spare: }", "metadata.labels[spare]", "Invalid value: null: must be a string"),
    ],
)
def test_labels_are_strings(refusal, labels, field, piece):
    found = refusal(f"{{apiVersion: v1, kind: Node, metadata: {{name: n, labels: {labels}}}}}")
    assert found == ("Node/n", field, piece)


def test_the_first_of_several_mistakes_is_named(refusal):
    found = refusal(
        """
apiVersion: v1
kind: Node
metadata: {name: n, labels: {fine: a, replica: 3}}
spec: {unschedulable: 7}
"""
    )
    assert found[1] == "metadata.labels[replica]"


@pytest.mark.parametrize("field", ["spec", "metadata"])
def test_names_of_fields_are_strings(refusal, field):
    document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}}
    document[field][5] = "x"
    assert refusal(document)[1:] == (field, "Invalid value: 5: must be a string; put it in quotes")


# ---- quotas and priority classes ---------------------------------------------------------------------------

QUOTA = "apiVersion: v1\nkind: ResourceQuota\n"


@pytest.mark.parametrize(
    ("hard", "weight"),
    [
        ("{volcano.sh/namespace.weight: 3}", 3),
        ("{volcano.sh/namespace.weight: '10', pods: '5'}", 10),
        ("{volcano.sh/namespace.weight: 2k}", 2000),
        ("{volcano.sh/namespace.weight: 3000m}", 3),
        ("{volcano.sh/namespace.weight: 1500m}", None),
        ("{volcano.sh/namespace.weight: 0}", None),
        ("{volcano.sh/namespace.weight: -1}", None),
        ("{cpu: 10}", None),
        ("{}", None),
    ],
)
def test_quota_weight_is_a_whole_number_above_zero_or_nothing(describe, hard, weight):
    manifest = f"{QUOTA}metadata: {{name: q, namespace: ns1}}\nspec: {{hard: {hard}}}"
    assert describe(manifest) == Quota("ns1", "q", weight)


def test_quota_weight_that_is_no_quantity(refusal):
    found = refusal(QUOTA + "metadata: {name: q}\nspec: {hard: {volcano.sh/namespace.weight: heavy}}")
    assert found[:2] == ("ResourceQuota/default/q", "spec.hard.volcano.sh/namespace.weight")
    assert "'heavy' is not a quantity" in found[2]


def test_priority_class(describe, refusal):
    head = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\n"
    assert describe(head + "value: 1000\nglobalDefault: true") == PriorityClass("high", 1000, default=True)
    assert describe(head + "value: -5") == PriorityClass("high", -5)
    assert describe(head + "preemptionPolicy: PreemptLowerPriority") == PriorityClass("high")
    assert describe(head + "preemptionPolicy: Never") == PriorityClass("high", preempts=False)
    assert refusal(head + "preemptionPolicy: Sometimes")[1:] == (
        "preemptionPolicy",
        "Unsupported value: 'Sometimes': supported values: PreemptLowerPriority, Never",
    )
    assert refusal(head + "value: high") == (
        "PriorityClass/high",
        "value",
        "Invalid value: 'high': must be an integer; write it without quotes",
    )
    assert refusal(head + "value: 3000000000")[1:] == (
        "value",
        "Invalid value: 3000000000: must be less than or equal to 2147483647",
    )


# ---- pod groups --------------------------------------------------------------------------------------------

GROUP = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\n"


def test_pod_group(describe):
    assert describe(
        GROUP
        + """
metadata:
  name: train
  namespace: ml
  annotations: {volcano.sh/user: ada, sla-waiting-time: 1h30m}
  labels: {volcano.sh/preemptable: "false"}
spec:
  minMember: 3
  minTaskMember: {ps: 1, worker: 2}
  minResources: {cpu: "3", memory: 3Gi}
  queue: research
  priorityClassName: high
  networkTopology: {mode: soft}
status: {phase: Inqueue, conditions: null}
""",
        created=9,
    ) == JobSpec(
        namespace="ml",
        name="train",
        queue="research",
        created=9,
        min_member=3,
        min_task_member={"ps": 1, "worker": 2},
        min_resources=(3000, 3 * 2**30, 0),
        priority_class="high",
        phase=JobPhase.INQUEUE,
        user="ada",
        # 5400 s
        longest_wait=5_400 * SECOND,
        preemptable=False,
        topology=NetworkTopology(hard=False),
    )


def test_min_resources_without_the_names_of_quotas(describe):
    found = describe(
        GROUP
        + """
metadata: {name: pg}
spec:
  minMember: 2
  minResources:
    cpu: "2"
    nvidia.com/gpu: "1"
    pods: "2"
    count/pods: "2"
    requests.cpu: "2"
    requests.nvidia.com/gpu: "1"
    limits.cpu: "4"
"""
    )
    assert found.min_resources == (2000, 0, 2, 1000), "Volcano adds quota names, which no node offers"


def test_pod_group_of_few_words(describe):
    assert describe(GROUP + "metadata: {name: pg}") == JobSpec("default", "pg", "default", min_member=1)


def test_explicit_minimum_of_zero_stays_zero(describe):
    assert describe(GROUP + "metadata: {name: pg}\nspec: {minMember: 0}").min_member == 0


@pytest.mark.parametrize(
    ("part", "field", "piece"),
    [
        ("spec: {minMember: -1}", "spec.minMember", "Invalid value: -1: must be greater than or equal to 0"),
        ("spec: {minMember: 1.5}", "spec.minMember", "Invalid value: 1.5: must be an integer"),
        ("spec: {minMember: true}", "spec.minMember", "Invalid value: true: must be an integer"),
        (
            "spec: {minTaskMember: {ps: 1, worker: -2}}",
            "spec.minTaskMember[worker]",
            "Invalid value: -2: must be greater than or equal to 0",
        ),
        ("spec: {minResources: {memory: 1K}}", "spec.minResources.memory", "1k (powers of 1000) or 1Ki"),
        ("spec: {queue: 5}", "spec.queue", "Invalid value: 5: must be a string; put it in quotes"),
        (
            "status: {phase: Waiting}",
            "status.phase",
            "Unsupported value: 'Waiting': supported values: Pending, Inqueue, Running",
        ),
    ],
)
def test_bad_pod_groups(refusal, part, field, piece):
    found = refusal(f"{GROUP}metadata: {{name: pg, namespace: ml}}\n{part}")
    assert found[:2] == ("PodGroup/ml/pg", field)
    assert piece in found[2]


# ---- whatever comes in -------------------------------------------------------------------------------------

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "a", "1", "4Gi"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=4,
)

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "namespace": "ns",
        "labels": {"app": "x"},
        "annotations": {"volcano.sh/task-spec": "w"},
    },
    "spec": {
        "containers": [{"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": 2}}, "ports": [{"hostPort": 80}]}],
        "initContainers": [{"restartPolicy": "Always"}],
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}]
                }
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
                ]
            },
        },
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    },
    "status": {"phase": "Running", "startTime": "2024-05-01T12:00:00Z"},
}
QUEUE = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {
        "name": "q",
        "annotations": {"volcano.sh/hierarchy": "root/q", "volcano.sh/hierarchy-weights": "1/2"},
    },
    "spec": {
        "weight": 1,
        "capability": {"cpu": 1},
        "guarantee": {"resource": {"cpu": 1}},
        "hierarchy": [{"name": "a", "parameters": [{"name": "weight", "value": 2}], "hierarchy": [{"name": "b"}]}],
    },
    "status": {"state": "Open"},
}


def places(node, path=()):
    """Every path into a document."""
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in entries:
        yield (*path, key)
        yield from places(value, (*path, key))


@pytest.mark.parametrize("document", [POD, QUEUE], ids=["pod", "queue"])
@given(choice=st.data())
def test_a_document_is_read_or_refused_with_its_name_and_never_changed(document, choice):
    document = copy.deepcopy(document)
    place = choice.draw(st.sampled_from(list(places(document))))
    node = document
    for step in place[:-1]:
        node = node[step]
    node[place[-1]] = choice.draw(ANYTHING)
    before = json.dumps(document)
    error = None
    try:
        decode(document, registry=Registry())
    except ObjectError as refused:
        error = refused
    assert error is None or (error.field.startswith(place[0]) and error.message), (place, error)
    assert json.dumps(document) == before


def test_the_documents_above_are_right(describe):
    assert describe(POD).key == "ns/p"
    assert describe(QUEUE).name == "q"


def test_hyper_node(describe):
    assert describe(
        """
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: block}
spec:
  tier: 2
  tierName: block
  members:
  - {type: Node, selector: {exactMatch: {name: n1}}}
  - {type: Node, selector: {labelMatch: {matchLabels: {rack: a}}}}
  - {type: HyperNode, selector: {regexMatch: {pattern: "^rack-"}}}
"""
    ) == HyperNode(
        "block",
        2,
        "block",
        (
            HyperNodeMember(True, name="n1"),
            HyperNodeMember(True, labels=(Requirement("rack", "In", ("a",)),)),
            HyperNodeMember(False, pattern="^rack-"),
        ),
    )


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        ("{}", NetworkTopology(True)),
        ("{mode: hard, highestTierAllowed: 2}", NetworkTopology(True, 2)),
        ("{mode: soft, highestTierName: rack}", NetworkTopology(False, None, "rack")),
    ],
)
def test_network_topology(topology, expected, describe):
    assert describe(f"{GROUP}metadata: {{name: g}}\nspec: {{networkTopology: {topology}}}").topology == expected
