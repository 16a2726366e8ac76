"""Queues, their paths and the queues they describe below them."""

import pytest

from pumice import crds
from pumice.kube.decode.queues import PARAMETERS
from pumice.model.queue_expansion import entry_fields
from pumice.model.specs import GroupAffinity, HierarchyEntry, Queue, QueueState

HEAD = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\n"
GI = 2**30
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.fixture
def hierarchy(describe):
    return lambda entries: describe(f"{HEAD}metadata: {{name: dev}}\nspec: {{hierarchy: {entries}}}").hierarchy


def test_queue(describe):
    assert describe(
        HEAD
        + """
metadata:
  name: research
  creationTimestamp: "1970-01-01T00:00:01Z"
  annotations: {volcano.sh/hierarchy: root/eng/research, volcano.sh/hierarchy-weights: 1/2/0.5}
spec:
  weight: 4
  parent: eng
  priority: 10
  reclaimable: false
  dequeueStrategy: fifo
  capability: {cpu: "10", memory: 20Gi}
  deserved: {cpu: 8}
  guarantee: {resource: {cpu: 500m}}
  minUserLimitPercent: 25
  userLimitFactor: 0.5
  affinity: {nodeGroupAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [a]}}
status: {state: Closing, allocated: {cpu: 1}, running: 3}
"""
    ) == Queue(
        name="research",
        created=1_000_000,
        weight=4,
        parent="eng",
        path="root/eng/research",
        path_weights="1/2/0.5",
        state=QueueState.CLOSING,
        priority=10,
        reclaimable=False,
        fifo=True,
        capability=((0, 10_000), (1, 20 * GI)),
        deserved=((0, 8_000),),
        guarantee=((0, 500),),
        min_user_limit_percent=25,
        user_limit_factor=0.5,
        affinity=GroupAffinity(required=("a",)),
    )


@pytest.mark.parametrize(
    ("written", "affinity"),
    [
        ("", None),
        ("{}", None),
        (f"{{nodeGroupAffinity: {{{REQUIRED}: []}}, nodeGroupAntiAffinity: null}}", None),
        (
            # A set, however it is written.
            f"{{nodeGroupAffinity: {{{REQUIRED}: [b, a, b], {PREFERRED}: [a]}},"
            f" nodeGroupAntiAffinity: {{{REQUIRED}: [d, c], {PREFERRED}: [e]}}}}",
            GroupAffinity(("a", "b"), ("a",), ("c", "d"), ("e",)),
        ),
    ],
    ids=["absent", "empty", "no groups", "all of it"],
)
def test_a_queue_names_node_groups_or_says_nothing(describe, written, affinity):
    assert describe(f"{HEAD}metadata: {{name: dev}}\nspec: {{affinity: {written}}}").affinity == affinity


@pytest.mark.parametrize(
    ("affinity", "field", "piece"),
    [
        ("[a]", "", "must be a mapping"),
        (
            f"{{nodeGroupAffinity: {{{PREFERRED}: [3]}}}}",
            f".nodeGroupAffinity.{PREFERRED}[0]",
            "Invalid value: 3: must be a string; put it in quotes",
        ),
        (
            f"{{nodeGroupAntiAffinity: {{{REQUIRED}: [a, '']}}}}",
            f".nodeGroupAntiAffinity.{REQUIRED}[1]",
            "Required value: the name of a node group",
        ),
    ],
)
def test_bad_node_groups(refusal, affinity, field, piece):
    found = refusal(f"{HEAD}metadata: {{name: dev}}\nspec: {{affinity: {affinity}}}")
    assert found[:2] == ("Queue/dev", f"spec.affinity{field}")
    assert piece in found[2]


def test_queue_of_few_words(describe):
    assert describe(HEAD + "metadata: {name: dev}", created=5) == Queue("dev", created=5)
    assert describe(HEAD + "metadata: {name: dev}\nspec: {capability: {}, guarantee: {}, parent: null}") == Queue("dev")


@pytest.mark.parametrize("state", list(QueueState))
def test_every_state_is_read(describe, state):
    assert describe(f"{HEAD}metadata: {{name: dev}}\nstatus: {{state: {state.value}}}").state is state


def test_a_path_may_come_without_weights(describe):
    found = describe(f"{HEAD}metadata: {{name: dev, annotations: {{volcano.sh/hierarchy: root/dev}}}}")
    assert (found.path, found.path_weights) == ("root/dev", None)


@pytest.mark.parametrize(
    ("part", "field", "piece"),
    [
        ("spec: {weight: 0}", "spec.weight", "Invalid value: 0: must be greater than or equal to 1"),
        ("spec: {weight: -3}", "spec.weight", "Invalid value: -3: must be greater than or equal to 1"),
        ("spec: {weight: 70000}", "spec.weight", "Invalid value: 70000: must be less than or equal to 65535"),
        (
            "spec: {weight: '2'}",
            "spec.weight",
            "Invalid value: '2': must be an integer; write it without quotes",
        ),
        ("spec: {weight: 1.5}", "spec.weight", "Invalid value: 1.5: must be an integer"),
        ("spec: {priority: -1}", "spec.priority", "Invalid value: -1: must be greater than or equal to 0"),
        ("spec: {reclaimable: 1}", "spec.reclaimable", "Invalid value: 1: must be true or false"),
        (
            "spec: {dequeueStrategy: lifo}",
            "spec.dequeueStrategy",
            "Unsupported value: 'lifo': supported values: fifo, traverse",
        ),
        ("spec: {capability: {memory: 10GB}}", "spec.capability.memory", "10G (powers of 1000) or 10Gi"),
        ("spec: {deserved: {cpu: true}}", "spec.deserved.cpu", "not a quantity"),
        ("spec: {guarantee: {resource: {cpu: x}}}", "spec.guarantee.resource.cpu", "'x' is not a quantity"),
        ("spec: {guarantee: 4}", "spec.guarantee", "Invalid value: 4: must be a mapping"),
        (
            "spec: {minUserLimitPercent: 101}",
            "spec.minUserLimitPercent",
            "Invalid value: 101: must be less than or equal to 100",
        ),
        (
            "spec: {userLimitFactor: 0}",
            "spec.userLimitFactor",
            "must be greater than 0, or -1 for no limit",
        ),
        (
            "spec: {userLimitFactor: .nan}",
            "spec.userLimitFactor",
            "must be greater than 0, or -1 for no limit",
        ),
        (
            "status: {state: Opened}",
            "status.state",
            "Unsupported value: 'Opened': supported values: Open, Closing, Closed, Paused",
        ),
    ],
)
def test_bad_queues(refusal, part, field, piece):
    found = refusal(f"{HEAD}metadata: {{name: dev, namespace: ignored}}\n{part}")
    assert found[:2] == ("Queue/dev", field)
    assert piece in found[2]


@pytest.mark.parametrize(
    ("path", "weights", "annotation", "piece"),
    [
        ("root/eng/prod", "1/2", "hierarchy-weights", "has 2 weights for the 3 levels of 'root/eng/prod'"),
        ("root/eng", "1/0", "hierarchy-weights", "Invalid value: '0' in '1/0': must be a number greater than 0"),
        ("root/eng", "1/-2", "hierarchy-weights", "Invalid value: '-2' in '1/-2': must be a number greater than 0"),
        (
            "root/eng",
            "1/heavy",
            "hierarchy-weights",
            "Invalid value: 'heavy' in '1/heavy': must be a number greater than 0",
        ),
        ("root//eng", "1/1/1", "hierarchy", "Invalid value: 'root//eng': has an empty segment"),
        ("", "1/2", "hierarchy-weights", "add the annotation volcano.sh/hierarchy"),
    ],
)
def test_bad_paths(refusal, path, weights, annotation, piece):
    annotations = f"{{volcano.sh/hierarchy: '{path}', volcano.sh/hierarchy-weights: '{weights}'}}"
    found = refusal(f"{HEAD}metadata: {{name: dev, annotations: {annotations}}}")
    assert found[:2] == ("Queue/dev", f"metadata.annotations[volcano.sh/{annotation}]")
    assert piece in found[2]


# ---- spec.hierarchy ----------------------------------------------------------------------------------------


def test_hierarchy(describe):
    found = describe(
        HEAD
        + """
metadata: {name: root}
spec:
  weight: 1
  hierarchy:
  - name: default
    parameters: [{name: weight, value: 5}]
  - name: dev
    parameters: [{name: weight, value: 5}]
    hierarchy:
    - name: test1
      parameters: [{name: weight, value: 1}, {name: reclaimable, value: false}]
    - name: test2
      parameters: [{name: weight, value: 2}]
"""
    )
    assert found.hierarchy == (
        HierarchyEntry("default", (("weight", 5),)),
        HierarchyEntry(
            "dev",
            (("weight", 5),),
            (
                HierarchyEntry("test1", (("reclaimable", False), ("weight", 1))),
                HierarchyEntry("test2", (("weight", 2),)),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        ("weight", "'5'", 5),
        ("reclaimable", "'false'", False),
        ("priority", "3", 3),
        ("capability", "{cpu: 2, memory: 1Gi}", ((0, 2000), (1, GI))),
        ("deserved", "{cpu: '2', memory: 0}", ((0, 2000), (1, 0))),
        ("guarantee", "{resource: {cpu: 500m}}", ((0, 500),)),
        ("dequeueStrategy", "fifo", "fifo"),
        ("minUserLimitPercent", "'25'", 25),
        ("userLimitFactor", "-1", -1),
        ("userLimitFactor", "'0.5'", 0.5),
        ("affinity", f"{{nodeGroupAntiAffinity: {{{REQUIRED}: [b]}}}}", GroupAffinity(required_anti=("b",))),
        ("type", "leaf", "leaf"),
    ],
)
def test_parameters_are_fields_of_the_spec(hierarchy, name, written, value):
    (entry,) = hierarchy(f"[{{name: a, parameters: [{{name: {name}, value: {written}}}]}}]")
    assert entry.parameters == ((name, value),)
    assert type(entry.parameters[0][1]) is type(value) or name == "userLimitFactor"


def test_every_field_of_the_definition_is_read():
    (queue,) = (found for found in crds.definitions() if found["spec"]["names"]["kind"] == "Queue")
    schema = queue["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert {*PARAMETERS, "parent", "hierarchy"} == {*schema["properties"]["spec"]["properties"]}


@pytest.mark.parametrize("name", sorted(PARAMETERS.keys() - {"type", "extendClusters"}))
def test_every_parameter_that_counts_sets_a_field(name):
    assert entry_fields(HierarchyEntry("a", ((name, "a value"),)))


@pytest.mark.parametrize(
    ("parameter", "field", "piece"),
    [
        (
            "{name: wieght, value: 5}",
            "name",
            "Unsupported value: 'wieght': supported values: weight, capability, deserved",
        ),
        ("{name: parent, value: x}", "name", "Unsupported value: 'parent'"),
        ("{name: hierarchy, value: []}", "name", "Unsupported value: 'hierarchy'"),
        ("{value: 5}", "name", "Required value"),
        ("{name: weight}", "value", "Required value"),
        ("{name: weight, value: }", "value", "Invalid value: null: must be an integer"),
        ("{name: weight, value: 0}", "value", "Invalid value: 0: must be greater than or equal to 1"),
        ("{name: weight, value: '0'}", "value", "Invalid value: '0': must be greater than or equal to 1"),
        ("{name: weight, value: much}", "value", "Invalid value: 'much': must be an integer"),
        ("{name: reclaimable, value: 1}", "value", "Invalid value: 1: must be true or false"),
        ("{name: capability, value: 5}", "value", "Invalid value: 5: must be a mapping"),
        ("{name: capability, value: {cpu: 1GB}}", "value.cpu", "not a quantity"),
        ("{name: guarantee, value: {resource: {cpu: x}}}", "value.resource.cpu", "'x' is not a quantity"),
        ("{name: guarantee, value: {resource: 5}}", "value.resource", "Invalid value: 5: must be a mapping"),
        ("{name: dequeueStrategy, value: lifo}", "value", "supported values: fifo, traverse"),
        ("{name: minUserLimitPercent, value: 101}", "value", "less than or equal to 100"),
        ("{name: userLimitFactor, value: -2}", "value", "or -1 for no limit"),
        ("{name: affinity, value: a}", "value", "Invalid value: 'a': must be a mapping"),
        (
            f"{{name: affinity, value: {{nodeGroupAffinity: {{{REQUIRED}: a}}}}}}",
            f"value.nodeGroupAffinity.{REQUIRED}",
            "Invalid value: 'a': must be a list",
        ),
    ],
)
def test_bad_parameters(refusal, parameter, field, piece):
    entry = f"{{name: a, parameters: [{{name: priority, value: 1}}, {parameter}]}}"
    found = refusal(f"{HEAD}metadata: {{name: dev}}\nspec: {{hierarchy: [{entry}]}}")
    assert found[:2] == ("Queue/dev", f"spec.hierarchy[0].parameters[1].{field}")
    assert piece in found[2]


@pytest.mark.parametrize(
    ("entries", "field", "piece"),
    [
        ("[{name: a}, {name: a}]", "[1].name", "Duplicate value: 'a': already used at spec.hierarchy[0].name"),
        (
            "[{name: a, hierarchy: [{name: b}]}, {name: c, hierarchy: [{name: b}]}]",
            "[1].hierarchy[0].name",
            "Duplicate value: 'b': already used at spec.hierarchy[0].hierarchy[0].name",
        ),
        (
            "[{name: a, hierarchy: [{name: a}]}]",
            "[0].hierarchy[0].name",
            "Duplicate value: 'a': already used at spec.hierarchy[0].name",
        ),
        ("[{name: dev}]", "[0].name", "Duplicate value: 'dev': already used at metadata.name"),
        ("[{name: root}]", "[0].name", "Duplicate value: 'root': already used at the top of the tree"),
        ("[{name: ''}]", "[0].name", "Invalid value: ''"),
        ("[{name: a/b}]", "[0].name", "Invalid value: 'a/b'"),
        ("[{parameters: []}]", "[0].name", "Required value"),
        ("[{name: a, hierarchy: {name: b}}]", "[0].hierarchy", "must be a list"),
        (
            "[{name: a, parameters: [{name: weight, value: 1}, {name: weight, value: 2}]}]",
            "[0].parameters[1].name",
            "Duplicate value: 'weight'",
        ),
    ],
)
def test_bad_hierarchies(refusal, entries, field, piece):
    found = refusal(f"{HEAD}metadata: {{name: dev}}\nspec: {{hierarchy: {entries}}}")
    assert found[:2] == ("Queue/dev", f"spec.hierarchy{field}")
    assert piece in found[2]


def test_a_hierarchy_beyond_all_depth_is_refused(refusal):
    entry = {"name": "bottom"}
    for depth in range(100_000):
        entry = {"name": f"q{depth}", "hierarchy": [entry]}
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "dev"}}
    assert refusal(queue | {"spec": {"hierarchy": [entry]}})[1:] == (
        "spec.hierarchy",
        "Too deep: entries are nested too deeply",
    )
