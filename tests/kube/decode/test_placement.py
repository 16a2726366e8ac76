"""Where a pod may run, and that the order of writing does not matter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.label_selector import Requirement
from kubebase.resource_vector import Registry
from pumice.kube.decode.convert import decode
from pumice.model.specs import FREE, Constraints, NodeTerm, PodTerm, Spread, Toleration

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.fixture
def constraints(describe):
    """The constraints of a pod web/p with the labels app=db and hash=7 and this spec."""

    def constraints(**spec):
        return describe(pod(spec)).constraints

    return constraints


@pytest.fixture
def refused(refusal):
    def refused(**spec):
        subject, field, message = refusal(pod(spec))
        assert subject == "Pod/web/p"
        return field, message

    return refused


def pod(spec):
    metadata = {"name": "p", "namespace": "web", "labels": {"app": "db", "hash": "7"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def near(**term):
    return {"podAffinity": {REQUIRED: [{"topologyKey": "zone", **term}]}}


def required(*terms):
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


# ---- nodes -------------------------------------------------------------------------------------------------


def test_pod_without_placement_requirements_has_free_constraints(constraints):
    empty = {"nodeSelector": {}, "affinity": {"podAffinity": {}}, "tolerations": []}
    assert constraints() is FREE
    assert constraints(**empty) == FREE
    assert constraints(nodeSelector=None, affinity=None, tolerations=None, topologySpreadConstraints=None) is FREE
    assert constraints(containers=[{"ports": [{"containerPort": 80}, {"hostPort": 0}]}]) is FREE


def test_node_selector_is_sorted(constraints):
    assert constraints(nodeSelector={"zone": "a", "disk": "ssd"}).node_selector == (
        ("disk", "ssd"),
        ("zone", "a"),
    )


def test_node_affinity(constraints):
    found = constraints(
        affinity={
            "nodeAffinity": {
                REQUIRED: {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "zone", "operator": "In", "values": ["b", "a", "b"]},
                                {"key": "cores", "operator": "Gt", "values": ["8"]},
                                {"key": "spot", "operator": "DoesNotExist"},
                            ]
                        },
                        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]},
                    ]
                },
                PREFERRED: [
                    {
                        "weight": 30,
                        "preference": {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]},
                    },
                    {"weight": 5, "preference": {}},
                ],
            }
        }
    )
    assert found == Constraints(
        node_required=(
            NodeTerm(
                labels=(
                    Requirement("cores", "Gt", ("8",)),
                    Requirement("spot", "DoesNotExist"),
                    Requirement("zone", "In", ("a", "b")),
                )
            ),
            NodeTerm(fields=(Requirement("metadata.name", "NotIn", ("n1",)),)),
        ),
        node_preferred=(NodeTerm(labels=(Requirement("ssd", "Exists"),), weight=30),),
    )


def test_a_term_that_says_nothing_matches_no_node(constraints):
    exists = {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}
    term = NodeTerm(labels=(Requirement("ssd", "Exists"),))
    assert constraints(affinity=required({}, exists)).node_required == (term,)
    assert constraints(affinity=required({})).node_required == ()  # any of none: not None, which is no requirement


@pytest.mark.parametrize(
    ("affinity", "field", "piece"),
    [
        (required(), "", "add at least one term"),
        (
            required({"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Is"}]}),
            "[0].matchExpressions[1].operator",
            "Unsupported value: 'Is': supported values: In, NotIn, Exists, DoesNotExist, Gt, Lt",
        ),
        (
            required({"matchExpressions": [{"key": "a", "operator": "In"}]}),
            "[0].matchExpressions[0].values",
            "needs at least one value",
        ),
        (
            required({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}),
            "[0].matchExpressions[0].values",
            "takes no values",
        ),
        (
            required({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["many"]}]}),
            "[0].matchExpressions[0].values",
            "exactly one integer",
        ),
        (
            required({"matchExpressions": [{"key": "a", "operator": "Lt", "values": ["1", "2"]}]}),
            "[0].matchExpressions[0].values",
            "exactly one integer",
        ),
        (required({"matchExpressions": [{"operator": "In"}]}), "[0].matchExpressions[0].key", "Required value"),
        (
            required({"matchExpressions": [{"key": "a", "operator": "In", "values": ["x", 1]}]}),
            "[0].matchExpressions[0].values[1]",
            "put it in quotes",
        ),
        (
            required({"matchFields": [{"key": "spec.x", "operator": "In", "values": ["x"]}]}),
            "[0].matchFields[0].key",
            "Unsupported value: 'spec.x': supported values: metadata.name",
        ),
        (
            required({"matchFields": [{"key": "metadata.name", "operator": "Gt", "values": ["1"]}]}),
            "[0].matchFields[0].operator",
            "supported values: In, NotIn",
        ),
    ],
)
def test_bad_node_affinity(refused, affinity, field, piece):
    found, message = refused(affinity=affinity)
    assert found == f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms{field}"
    assert piece in message


def test_weight_of_a_preference(refused):
    field, message = refused(affinity={"nodeAffinity": {PREFERRED: [{"weight": 101, "preference": {}}]}})
    assert field == f"spec.affinity.nodeAffinity.{PREFERRED}[0].weight"
    assert message == "Invalid value: 101: must be less than or equal to 100"


def test_tolerations(constraints):
    found = constraints(
        tolerations=[
            {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
            {"operator": "Exists"},
            {"key": "down", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"operator": "Exists"},
        ]
    )
    assert found.tolerations == (
        Toleration("", "Exists"),
        Toleration("down", "Exists", "", "NoExecute"),
        Toleration("gpu", "Equal", "yes", "NoSchedule"),
    )


@pytest.mark.parametrize(
    ("toleration", "field", "piece"),
    [
        ({"key": "a", "operator": "Like"}, "operator", "Unsupported value: 'Like': supported values: Equal, Exists"),
        ({"value": "x"}, "key", "use Exists to tolerate every taint"),
        ({"key": "a", "operator": "Exists", "value": "x"}, "value", "must be empty when operator is Exists"),
        ({"key": "a", "effect": "Maybe"}, "effect", "supported values: NoSchedule, PreferNoSchedule, NoExecute"),
    ],
)
def test_bad_tolerations(refused, toleration, field, piece):
    found, message = refused(tolerations=[{"operator": "Exists"}, toleration])
    assert found == f"spec.tolerations[1].{field}"
    assert piece in message


def test_ports_of_containers_and_sidecars(constraints):
    found = constraints(
        containers=[
            {"ports": [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}]},
            {"ports": [{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}, {"hostPort": 8080}]},
        ],
        initContainers=[
            {"restartPolicy": "Always", "ports": [{"hostPort": 9}]},
            {"ports": [{"hostPort": 10}]},
        ],
    )
    assert found.ports == (("TCP", "0.0.0.0", 9), ("TCP", "0.0.0.0", 8080), ("UDP", "10.0.0.1", 53))


def test_on_the_network_of_the_host_every_port_is_the_nodes(constraints):
    found = constraints(hostNetwork=True, containers=[{"ports": [{"containerPort": 80}]}])
    assert found.ports == (("TCP", "0.0.0.0", 80),)


# ---- other pods --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("term", "namespaces"),
    [
        ({}, ("web",)),
        ({"namespaces": []}, ("web",)),
        ({"namespaces": ["b", "a", "b"]}, ("a", "b")),
        ({"namespaceSelector": None, "namespaces": ["a"]}, ("a",)),
        ({"namespaceSelector": {}}, None),
        ({"namespaceSelector": {}, "namespaces": ["a"]}, None),
    ],
)
def test_namespaces_of_a_term(constraints, term, namespaces):
    selector = {"matchLabels": {"app": "db"}}
    found = constraints(affinity=near(labelSelector=selector, **term))
    assert found.affinity == (PodTerm("zone", (Requirement("app", "In", ("db",)),), namespaces),)
    assert found.anti_affinity == ()


@pytest.mark.parametrize(
    ("term", "selector"),
    [
        ({}, None),
        ({"labelSelector": {}}, ()),
        (
            {"labelSelector": {"matchLabels": {"b": "2", "a": "1"}}},
            (Requirement("a", "In", ("1",)), Requirement("b", "In", ("2",))),
        ),
        (
            {
                "labelSelector": {
                    "matchLabels": {"b": "2"},
                    "matchExpressions": [{"key": "a", "operator": "Exists"}],
                }
            },
            (Requirement("a", "Exists"), Requirement("b", "In", ("2",))),
        ),
        # the pod has hash=7 and no label 'other'
        (
            {"labelSelector": {}, "matchLabelKeys": ["hash", "other"]},
            (Requirement("hash", "In", ("7",)),),
        ),
        (
            {"labelSelector": {"matchLabels": {"hash": "7"}}, "matchLabelKeys": ["hash"]},
            (Requirement("hash", "In", ("7",)),),
        ),
        (
            {"labelSelector": {}, "mismatchLabelKeys": ["app", "other"]},
            (Requirement("app", "NotIn", ("db",)),),
        ),
        ({"matchLabelKeys": ["hash"]}, None),
    ],
)
def test_selector_of_a_term(constraints, term, selector):
    found = constraints(affinity={"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone", **term}]}})
    assert found.anti_affinity == (PodTerm("zone", selector, ("web",)),)
    assert found.affinity == ()


def test_preferred_pod_affinity_is_not_read(constraints):
    term = {"weight": 5, "podAffinityTerm": {"topologyKey": "zone"}}
    assert constraints(affinity={"podAffinity": {PREFERRED: [term]}}) == FREE


@pytest.mark.parametrize(
    ("term", "field", "piece"),
    [
        ({"topologyKey": ""}, "topologyKey", "kubernetes.io/hostname"),
        (
            {"namespaceSelector": {"matchLabels": {"team": "a"}}},
            "namespaceSelector",
            "use {} for all namespaces",
        ),
        (
            {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}},
            "labelSelector.matchExpressions[0].operator",
            "Unsupported value: 'Gt': supported values: In, NotIn, Exists, DoesNotExist",
        ),
        (
            {"labelSelector": {"matchLabels": {"a": "x", "b": True}}},
            "labelSelector.matchLabels[b]",
            "Invalid value: true: must be a string; put it in quotes",
        ),
    ],
)
def test_bad_terms(refused, term, field, piece):
    found, message = refused(affinity=near(**term))
    assert found == f"spec.affinity.podAffinity.{REQUIRED}[0].{field}"
    assert piece in message


def test_a_term_needs_a_topology_key(refused):
    field, message = refused(affinity={"podAntiAffinity": {REQUIRED: [{"labelSelector": {}}]}})
    assert field == f"spec.affinity.podAntiAffinity.{REQUIRED}[0].topologyKey"
    assert message == "Required value"


def test_spread(constraints):
    found = constraints(
        topologySpreadConstraints=[
            {
                "maxSkew": 2,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "db"}},
                "matchLabelKeys": ["hash"],
                "minDomains": 3,
                "nodeAffinityPolicy": "Ignore",
                "nodeTaintsPolicy": "Honor",
            },
            {"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": None},
        ]
    )
    assert found.spread == (
        Spread(
            "zone",
            2,
            (Requirement("app", "In", ("db",)), Requirement("hash", "In", ("7",))),
            hard=True,
            min_domains=3,
            honor_affinity=False,
            honor_taints=True,
        ),
        Spread("host", 1, None, hard=False, min_domains=1, honor_affinity=True, honor_taints=False),
    )


@pytest.mark.parametrize(
    ("change", "field", "piece"),
    [
        ({"maxSkew": 0}, "maxSkew", "Invalid value: 0: must be greater than or equal to 1"),
        ({"minDomains": 0}, "minDomains", "Invalid value: 0: must be greater than or equal to 1"),
        ({"whenUnsatisfiable": "Hope"}, "whenUnsatisfiable", "supported values: DoNotSchedule, ScheduleAnyway"),
        ({"whenUnsatisfiable": None}, "whenUnsatisfiable", "Required value"),
        ({"topologyKey": ""}, "topologyKey", "kubernetes.io/hostname"),
        ({"nodeTaintsPolicy": "Obey"}, "nodeTaintsPolicy", "supported values: Honor, Ignore"),
        ({"nodeAffinityPolicy": "Obey"}, "nodeAffinityPolicy", "supported values: Honor, Ignore"),
    ],
)
def test_bad_spread(refused, change, field, piece):
    good = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    found, message = refused(topologySpreadConstraints=[good | change])
    assert found == f"spec.topologySpreadConstraints[0].{field}"
    assert piece in message


# ---- the order of writing ----------------------------------------------------------------------------------

NAMES = st.sampled_from(["app", "zone", "disk", "team"])
TEXTS = st.dictionaries(NAMES, st.sampled_from(["a", "b"]), max_size=4)
EXPRESSION = st.builds(
    lambda key, values: {"key": key, "operator": "In", "values": values},
    NAMES,
    st.lists(st.sampled_from("ab"), min_size=1),
)
SELECTOR = st.fixed_dictionaries(
    {}, optional={"matchLabels": TEXTS, "matchExpressions": st.lists(EXPRESSION, max_size=2)}
)
TERM = st.fixed_dictionaries(
    {"topologyKey": NAMES}, optional={"labelSelector": SELECTOR, "matchLabelKeys": st.lists(NAMES)}
)
SPREAD = st.fixed_dictionaries(
    {"maxSkew": st.just(1), "topologyKey": NAMES, "whenUnsatisfiable": st.just("DoNotSchedule")},
    optional={"labelSelector": SELECTOR, "matchLabelKeys": st.lists(NAMES)},
)
SPEC = st.fixed_dictionaries(
    {},
    optional={
        "containers": st.just([{"resources": {"requests": {"cpu": 1, "memory": "1Gi", "example.com/gpu": 1}}}]),
        "nodeSelector": TEXTS,
        "tolerations": st.lists(st.builds(lambda key: {"key": key, "operator": "Exists"}, NAMES), max_size=3),
        "affinity": st.fixed_dictionaries(
            {},
            optional={
                "nodeAffinity": st.builds(
                    lambda terms: {REQUIRED: {"nodeSelectorTerms": terms}},
                    st.lists(
                        st.builds(lambda e: {"matchExpressions": e}, st.lists(EXPRESSION)),
                        min_size=1,
                        max_size=2,
                    ),
                ),
                "podAffinity": st.builds(lambda terms: {REQUIRED: terms}, st.lists(TERM, max_size=2)),
                "podAntiAffinity": st.builds(lambda terms: {REQUIRED: terms}, st.lists(TERM, max_size=2)),
            },
        ),
        "topologySpreadConstraints": st.lists(SPREAD, max_size=2),
    },
)
SETS = {"values", "matchExpressions", "matchLabelKeys", "tolerations"}


def shuffled(node, random, name=""):
    """The same document with its maps, and the lists that are sets, in another order."""
    if isinstance(node, dict):
        keys = list(node)
        random.shuffle(keys)
        return {key: shuffled(node[key], random, key) for key in keys}
    if isinstance(node, list):
        entries = [shuffled(entry, random) for entry in node]
        if name in SETS:
            random.shuffle(entries)
        return entries
    return node


@given(spec=SPEC, labels=TEXTS, random=st.randoms(use_true_random=False))
def test_the_order_of_writing_does_not_matter(spec, labels, random):
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": labels}, "spec": spec}
    registry = Registry()
    one = decode(document, registry=registry)
    other = decode(shuffled(document, random), registry=registry)
    assert one == other
    assert one.constraints is other.constraints


def test_different_constraints_differ(constraints):
    a = constraints(nodeSelector={"zone": "a"})
    assert a is constraints(nodeSelector={"zone": "a"})
    assert a != constraints(nodeSelector={"zone": "b"})
