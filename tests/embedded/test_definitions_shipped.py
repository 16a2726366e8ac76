"""The definitions that are shipped: every field there is, what is refused, and manifests as people write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from kubesim.api.status import ApiError
from kubesim.kinds import custom_resources
from kubesim.kinds.crds import custom_resource_definitions
from kubesim.registry.registry import Object, Resource
from pumice import crds
from tests.kubesim.kinds.strategy_writes import cells, create, headings, named, rejection_message, update


def defined() -> Iterator[Resource]:
    for definition in crds.definitions():
        for resource, _ in custom_resources.resources(create(custom_resource_definitions(), definition)):
            yield resource


RESOURCES = {resource.kind: resource for resource in defined()}

FIELDS = {
    "Queue": """
      weight parent capability deserved guarantee.resource priority reclaimable dequeueStrategy type
      affinity.nodeGroupAffinity.requiredDuringSchedulingIgnoredDuringExecution
      affinity.nodeGroupAffinity.preferredDuringSchedulingIgnoredDuringExecution
      affinity.nodeGroupAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution
      affinity.nodeGroupAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution
      extendClusters[].name extendClusters[].weight extendClusters[].capacity
      hierarchy[].name hierarchy[].parameters[].name hierarchy[].parameters[].value
      hierarchy[].hierarchy[].name hierarchy[].hierarchy[].parameters[].name hierarchy[].hierarchy[].parameters[].value
      hierarchy[].hierarchy[].hierarchy[].name hierarchy[].hierarchy[].hierarchy[].parameters[].name
      hierarchy[].hierarchy[].hierarchy[].parameters[].value hierarchy[].hierarchy[].hierarchy[].hierarchy
      minUserLimitPercent userLimitFactor
      status: state unknown pending running inqueue completed reservation.nodes reservation.resource allocated
      share entitled weight path namespaces[].name namespaces[].weight namespaces[].share namespaces[].allocated
      namespaces[].entitled namespaces[].pending namespaces[].inqueue namespaces[].running namespaces[].unknown
      namespaces[].completed innerNodes[].path innerNodes[].weight innerNodes[].share innerNodes[].allocated
      innerNodes[].entitled innerNodes[].pending innerNodes[].inqueue innerNodes[].running innerNodes[].unknown
      innerNodes[].completed scheduler.source scheduler.configuration scheduler.names
      scheduler.defaultQueue conditions[].type conditions[].status conditions[].reason conditions[].message
      conditions[].lastTransitionTime
      conditions[].observedGeneration
    """,
    "PodGroup": """
      minMember minTaskMember queue priorityClassName minResources
      networkTopology.mode networkTopology.highestTierAllowed networkTopology.highestTierName
      subGroupPolicy[].name subGroupPolicy[].subGroupSize subGroupPolicy[].minSubGroups
      subGroupPolicy[].labelSelector.matchLabels subGroupPolicy[].labelSelector.matchExpressions[].key
      subGroupPolicy[].labelSelector.matchExpressions[].operator
      subGroupPolicy[].labelSelector.matchExpressions[].values subGroupPolicy[].matchLabelKeys
      subGroupPolicy[].networkTopology.mode subGroupPolicy[].networkTopology.highestTierAllowed
      subGroupPolicy[].networkTopology.highestTierName
      status: phase running succeeded failed conditions[].type conditions[].status conditions[].transitionID
      conditions[].lastTransitionTime conditions[].reason conditions[].message
    """,
    "Job": """
      schedulerName minAvailable queue priorityClassName maxRetry minSuccess ttlSecondsAfterFinished runningEstimate
      plugins volumes[].mountPath volumes[].volumeClaimName volumes[].volumeClaim
      networkTopology.mode networkTopology.highestTierAllowed networkTopology.highestTierName
      policies[].event policies[].events policies[].action policies[].exitCode policies[].timeout
      tasks[].name tasks[].replicas tasks[].minAvailable tasks[].template.metadata tasks[].template.spec
      tasks[].policies[].event tasks[].policies[].events tasks[].policies[].action tasks[].policies[].exitCode
      tasks[].policies[].timeout tasks[].topologyPolicy tasks[].maxRetry tasks[].dependsOn.name
      tasks[].dependsOn.iteration tasks[].partitionPolicy.totalPartitions tasks[].partitionPolicy.partitionSize
      tasks[].partitionPolicy.minPartitions tasks[].partitionPolicy.networkTopology.mode
      tasks[].partitionPolicy.networkTopology.highestTierAllowed
      tasks[].partitionPolicy.networkTopology.highestTierName
      status: state.phase state.reason state.message state.lastTransitionTime minAvailable taskStatusCount pending
      running succeeded failed terminating unknown version retryCount runningDuration controlledResources
      conditions[].status conditions[].lastTransitionTime
    """,
    "HyperNode": """
      tier tierName members[].type members[].selector.exactMatch.name members[].selector.regexMatch.pattern
      members[].selector.labelMatch.matchLabels members[].selector.labelMatch.matchExpressions[].key
      members[].selector.labelMatch.matchExpressions[].operator
      members[].selector.labelMatch.matchExpressions[].values
      status: nodeCount conditions
    """,
    "Command": """
      action reason message
      target.apiVersion target.kind target.name target.uid target.controller target.blockOwnerDeletion
    """,
}
SPEC_OF_JOB = FIELDS["Job"].partition("status:")[0]
FIELDS["JobTemplate"] = f"{SPEC_OF_JOB} status: jobDependsOnList"
FIELDS["JobFlow"] = f"""
  jobRetainPolicy flows[].name flows[].dependsOn.targets
  flows[].dependsOn.probe.taskStatusList[].taskName flows[].dependsOn.probe.taskStatusList[].phase
  flows[].dependsOn.probe.httpGetList[].taskName flows[].dependsOn.probe.httpGetList[].path
  flows[].dependsOn.probe.httpGetList[].port flows[].dependsOn.probe.httpGetList[].httpHeader.name
  flows[].dependsOn.probe.httpGetList[].httpHeader.value flows[].dependsOn.probe.tcpSocketList[].taskName
  flows[].dependsOn.probe.tcpSocketList[].port
  {" ".join(f"flows[].patch.jobSpec.{field}" for field in SPEC_OF_JOB.split())}
  status: state.phase pendingJobs runningJobs failedJobs completedJobs terminatedJobs unKnowJobs
  jobStatusList[].name jobStatusList[].state jobStatusList[].startTimestamp jobStatusList[].endTimestamp
  jobStatusList[].restartCount jobStatusList[].runningHistories[].startTimestamp
  jobStatusList[].runningHistories[].endTimestamp jobStatusList[].runningHistories[].state conditions
"""
FIELDS["CronJob"] = f"""
  schedule timeZone startingDeadlineSeconds concurrencyPolicy suspend successfulJobsHistoryLimit failedJobsHistoryLimit
  jobTemplate.metadata.name jobTemplate.metadata.namespace jobTemplate.metadata.labels
  jobTemplate.metadata.annotations jobTemplate.metadata.finalizers
  {" ".join(f"jobTemplate.spec.{field}" for field in SPEC_OF_JOB.split())}
  status: active[].apiVersion active[].fieldPath active[].kind active[].name active[].namespace
  active[].resourceVersion active[].uid lastScheduleTime lastSuccessfulTime
"""
DEFAULTS: dict[str, Object] = {
    "JobTemplate": {},
    "JobFlow": {},
    "Queue": {"weight": 1, "reclaimable": True, "dequeueStrategy": "traverse"},
    "PodGroup": {},
    "Job": {"maxRetry": 3},
    "Command": {},
}


def leaves(schema: Object, path: str) -> Iterator[tuple[str, Object]]:
    """The fields of a schema below which nothing has a name of its own."""
    if schema.get("properties"):
        for name, part in schema["properties"].items():
            yield from leaves(part, f"{path}.{name}" if path else name)
    elif schema.get("type") == "array" and (schema["items"].get("properties")):
        yield from leaves(schema["items"], f"{path}[]")
    else:
        yield path, schema


def parts(schema: Object) -> Iterator[Object]:
    yield schema
    for inner in schema.get("properties", {}).values():
        yield from parts(inner)
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from parts(schema[word])


def body(kind: str, part: str) -> Object:
    found: Object = RESOURCES[kind].schema.openapi["properties"][part]
    return found


# ---- what there is ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FIELDS)
def test_every_field_and_no_other(kind: str) -> None:
    listed, _, status = FIELDS[kind].partition("status:")
    if kind == "Command":
        fields = {path for path, _ in leaves(RESOURCES[kind].schema.openapi, "")}
        assert fields - {"apiVersion", "kind", "metadata"} == set(listed.split())
    else:
        assert {path for path, _ in leaves(body(kind, "spec"), "")} == set(listed.split())
        assert {path for path, _ in leaves(body(kind, "status"), "")} == set(status.split())


@pytest.mark.parametrize("kind", FIELDS)
def test_every_field_is_explained(kind: str) -> None:
    for part in parts(RESOURCES[kind].schema.openapi):
        for name, field in part.get("properties", {}).items():
            if name != "metadata" or field.get("x-kubernetes-preserve-unknown-fields"):
                assert field["description"].endswith("."), name


@pytest.mark.parametrize("kind", FIELDS)
def test_every_column_is_explained(kind: str) -> None:
    for column in RESOURCES[kind].columns:
        assert column.description.endswith(".") or column.name == "Age", column.name


def test_names() -> None:
    short = {kind: resource.short_names for kind, resource in RESOURCES.items()}
    assert short == {
        "Queue": ("q", "queue-v1beta1"),
        "PodGroup": ("pg", "podgroup-v1beta1"),
        "Job": ("vcjob", "vj"),
        "Command": (),
        "JobTemplate": ("jt",),
        "JobFlow": ("jf",),
        "CronJob": ("cronvcjob", "cronvj"),
        "HyperNode": ("hn",),
    }
    with_status = {kind for kind, resource in RESOURCES.items() if "status" in resource.subresources}
    assert with_status == RESOURCES.keys() - {"PodGroup", "Command"}
    assert {kind for kind, resource in RESOURCES.items() if not resource.namespaced} == {"Queue", "HyperNode"}
    assert {resource.api_version for resource in RESOURCES.values()} == {
        "scheduling.volcano.sh/v1beta1",
        "batch.volcano.sh/v1alpha1",
        "bus.volcano.sh/v1alpha1",
        "flow.volcano.sh/v1alpha1",
        "topology.volcano.sh/v1alpha1",
    }


@pytest.mark.parametrize("kind", DEFAULTS)
def test_defaults(kind: str) -> None:
    found = create(RESOURCES[kind], named(spec={}))
    assert found.get("spec", {}) == DEFAULTS[kind]


def test_queue_status_always_has_allocated() -> None:
    queue = create(RESOURCES["Queue"], named())
    assert update(RESOURCES["Queue"], queue, {"status": {"state": "Open"}}, sub="status")["status"] == {
        "state": "Open",
        "allocated": {},
    }


@pytest.mark.parametrize(
    ("kind", "shown", "wide"),
    [
        (
            "Queue",
            ["Name", "Parent", "Weight", "State", "Share", "Inqueue", "Pending", "Running", "Age"],
            ["Completed", "Unknown", "Path", "Reclaimable"],
        ),
        ("PodGroup", ["Name", "Status", "minMember", "Running", "Queue", "Age"], ["Succeeded", "Failed", "Priority"]),
        (
            "Job",
            ["Name", "Status", "minAvailable", "Running", "Queue", "Age"],
            ["Pending", "Succeeded", "Failed", "Retries"],
        ),
        ("HyperNode", ["Name", "Tier", "TierName", "Age"], []),
        ("Command", ["Name", "Action", "Kind", "Target", "Age"], ["Reason"]),
        ("JobTemplate", ["Name", "Queue", "Age"], ["Jobs"]),
        ("JobFlow", ["Name", "Status", "Age"], ["Running", "Completed", "Failed"]),
        ("CronJob", ["Name", "Schedule", "Timezone", "Suspend", "Last Schedule", "Age"], []),
    ],
)
def test_columns(kind: str, shown: list[str], wide: list[str]) -> None:
    found = headings(RESOURCES[kind])
    assert [name for name, _, priority in found if priority == 0] == shown
    assert [name for name, _, priority in found if priority == 1] == wide


# ---- what is taken ------------------------------------------------------------------------------------------

MANIFESTS = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: eng, annotations: {volcano.sh/hierarchy: root/eng, volcano.sh/hierarchy-weights: 1/2}}
spec:
  weight: 4
  capability: {cpu: 64, memory: 256Gi, nvidia.com/gpu: "8"}
  deserved: {cpu: 500m}
  guarantee: {resource: {cpu: "1.5"}}
  userLimitFactor: 0.5
  minUserLimitPercent: 25
  hierarchy:
  - name: prod
    parameters: [{name: weight, value: 3}, {name: capability, value: {cpu: 8}}, {name: reclaimable, value: "false"}]
    hierarchy: [{name: deep, parameters: [{name: weight, value: "2"}], hierarchy: [{name: deeper}]}]
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: pg}
spec: {minMember: 3, minTaskMember: {worker: 2}, queue: eng, minResources: {cpu: 3}, networkTopology: {mode: soft}}
status: {phase: Pending, conditions: [{type: Unschedulable, status: "True", transitionID: x}]}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec:
  schedulerName: volcano
  minAvailable: 3
  plugins: {ssh: [], env: [], svc: ["--publish-not-ready-addresses=true"]}
  policies: [{event: "*", action: RestartJob}, {events: [PodFailed, PodEvicted], action: AbortJob, timeout: 1h30m}]
  tasks:
  - name: worker
    replicas: 3
    policies: [{exitCode: 3, action: TerminateJob}]
    dependsOn: {name: [ps], iteration: any}
    template:
      metadata: {labels: {a: b}}
      spec:
        restartPolicy: Never
        containers: [{name: a, image: x, resources: {limits: {cpu: 1}}}]
        anything: [1, {b: null}]
---
apiVersion: bus.volcano.sh/v1alpha1
kind: Command
metadata: {name: stop}
action: AbortJob
target: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: train, uid: 123}
""".replace("uid: 123", 'uid: "123"')


@pytest.mark.parametrize("manifest", list(yaml.safe_load_all(MANIFESTS)), ids=lambda found: found["kind"])
def test_manifests_come_through_as_they_are(manifest: Object) -> None:
    resource = RESOURCES[manifest["kind"]]
    found = create(resource, manifest)
    for part in manifest.keys() - {"metadata", "apiVersion", "kind"}:
        if isinstance(manifest[part], dict):
            assert found[part] == {**DEFAULTS[manifest["kind"]], **manifest[part]}
        else:
            assert found[part] == manifest[part]
    assert len(cells(resource, found)) == len(resource.columns)


def test_the_queues_of_a_new_cluster() -> None:
    queues = {found["metadata"]["name"]: create(RESOURCES["Queue"], found) for found in crds.first_queues()}
    assert set(queues) == {"root", "default"}
    assert queues["default"]["spec"]["parent"] == "root"


def test_unknown_fields_are_dropped() -> None:
    queue = create(RESOURCES["Queue"], named(spec={"weight": 2, "colour": "red", "guarantee": {"of": 1}}))
    assert queue["spec"] == {"weight": 2, "guarantee": {}, "reclaimable": True, "dequeueStrategy": "traverse"}
    job = create(RESOURCES["Job"], named(spec={"tasks": [{"template": {"odd": 1, "spec": {"odd": 1}}}]}))
    assert job["spec"]["tasks"] == [{"template": {"spec": {"odd": 1}}}]


# ---- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "spec", "words"),
    [
        (
            "Queue",
            {"weight": 0},
            "spec.weight: Invalid value: 0: spec.weight in body should be greater than or equal to 1",
        ),
        ("Queue", {"weight": 65536}, "spec.weight in body should be less than or equal to 65535"),
        ("Queue", {"weight": "2"}, "spec.weight in body must be of type integer"),
        ("Queue", {"priority": -1}, "spec.priority in body should be greater than or equal to 0"),
        ("Queue", {"dequeueStrategy": "lifo"}, 'spec.dequeueStrategy: Unsupported value: "lifo"'),
        ("Queue", {"capability": {"cpu": "4 cores"}}, "spec.capability.cpu in body should match"),
        ("Queue", {"capability": {"cpu": "-1"}}, "spec.capability.cpu in body should match"),
        ("Queue", {"capability": {"cpu": -1}}, "spec.capability.cpu in body should be greater than or equal to 0"),
        ("Queue", {"minUserLimitPercent": 101}, "should be less than or equal to 100"),
        ("Queue", {"userLimitFactor": 0}, "spec.userLimitFactor"),
        ("Queue", {"userLimitFactor": -2}, "spec.userLimitFactor"),
        ("Queue", {"hierarchy": [{"parameters": []}]}, "spec.hierarchy[0].name: Required value"),
        ("Queue", {"hierarchy": [{"name": "a", "parameters": [{"name": "weight"}]}]}, "parameters[0].value: Required"),
        ("PodGroup", {"minMember": -1}, "spec.minMember in body should be greater than or equal to 0"),
        ("PodGroup", {"minMember": 2**31}, "spec.minMember"),
        ("PodGroup", {"networkTopology": {"mode": "firm"}}, 'spec.networkTopology.mode: Unsupported value: "firm"'),
        ("Job", {"policies": [{"event": "Nothing"}]}, 'spec.policies[0].event: Unsupported value: "Nothing"'),
        ("Job", {"policies": [{"events": ["PodFailed", "x"]}]}, 'spec.policies[0].events[1]: Unsupported value: "x"'),
        ("Job", {"policies": [{"timeout": "5 minutes"}]}, "spec.policies[0].timeout in body should match"),
        ("Job", {"runningEstimate": "soon"}, "spec.runningEstimate in body should match"),
        ("Job", {"tasks": [{"dependsOn": {"iteration": "some"}}]}, 'iteration: Unsupported value: "some"'),
        ("Job", {"volumes": [{}]}, "spec.volumes[0].mountPath: Required value"),
    ],
)
def test_refused(kind: str, spec: Any, words: str) -> None:
    assert words in rejection_message(create, RESOURCES[kind], named(spec=spec))


@pytest.mark.parametrize("factor", [-1, 0.25, 1, 10])
def test_user_limits(factor: float) -> None:
    assert create(RESOURCES["Queue"], named(spec={"userLimitFactor": factor}))["spec"]["userLimitFactor"] == factor


@pytest.mark.parametrize("amount", ["1", 1, "100m", "1.5", ".5", "1.", "2Ki", "1e3", "5E", "+1", "1E-2"])
def test_amounts(amount: str | int) -> None:
    create(RESOURCES["Queue"], named(spec={"capability": {"cpu": amount}}))


@pytest.mark.parametrize("amount", ["", "m", "1 ", "1kb", "1.5.2", ".", "1Kb", "0x1", True, [], 1.5])
def test_invalid_quantities_are_refused(amount: object) -> None:
    with pytest.raises(ApiError):
        create(RESOURCES["Queue"], named(spec={"capability": {"cpu": amount}}))


def test_command_needs_a_valid_action_and_target() -> None:
    words = rejection_message(create, RESOURCES["Command"], named(action="Dance", target={"kind": "Queue"}))
    assert 'action: Unsupported value: "Dance"' in words
    assert "target.uid: Required value" in words


def test_entries_and_parameters_of_a_hierarchy_merge_by_name() -> None:
    """So that two appliers may own two parameters of one queue; as deep as the schema describes entries."""
    found, level = body("Queue", "spec")["properties"], 0
    while "properties" in found["hierarchy"]["items"]:
        entries = found["hierarchy"]
        for merged in (entries, entries["items"]["properties"]["parameters"]):
            assert (merged["x-kubernetes-list-type"], merged["x-kubernetes-list-map-keys"]) == ("map", ["name"])
        found, level = entries["items"]["properties"], level + 1
    assert level == 3
