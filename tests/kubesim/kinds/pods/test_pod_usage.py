"""What a pod counts for, as a real kube-apiserver 1.36 counts it."""

import pytest

from kubesim.kinds.pods.quota_usage import counts, in_scope, unspecified, usage


def container(name="main", always=False, **resources):
    return {"name": name, "resources": resources} | ({"restartPolicy": "Always"} if always else {})


def pod(*containers, init=(), phase="Pending", **spec):
    spec = {"containers": list(containers) or [container()], "initContainers": list(init), **spec}
    return {"metadata": {"name": "p"}, "spec": spec, "status": {"phase": phase}}


def counted(found):
    return {name: str(amount) for name, amount in usage(found).items() if name not in {"pods", "count/pods"}}


def test_a_pod_that_is_over_is_an_object_and_nothing_else():
    busy = container(requests={"cpu": "1"})
    assert {"pods", "count/pods", "cpu", "requests.cpu"} == set(usage(pod(busy, phase="Running")))
    for phase in ("Succeeded", "Failed"):
        assert set(usage(pod(busy, phase=phase))) == {"count/pods"}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (pod(), {}),
        # cpu 250m + 1 = 1250m; memory only where it is asked for; limits apart from requests.
        (
            pod(
                container(requests={"cpu": "250m", "memory": "1Gi"}, limits={"memory": "2Gi"}),
                container("b", requests={"cpu": "1"}),
            ),
            {
                "cpu": "1250m",
                "requests.cpu": "1250m",
                "memory": "1Gi",
                "requests.memory": "1Gi",
                "limits.memory": "2Gi",
            },
        ),
        # A device counts by its request and has no short name; a resource of Kubernetes' own domain does not count.
        (
            pod(container(requests={"nvidia.com/gpu": "2", "kubernetes.io/x": "1"}, limits={"nvidia.com/gpu": "2"})),
            {"requests.nvidia.com/gpu": "2"},
        ),
        (
            pod(container(requests={"hugepages-2Mi": "4Mi", "ephemeral-storage": "1G"})),
            {
                "hugepages-2Mi": "4Mi",
                "requests.hugepages-2Mi": "4Mi",
                "ephemeral-storage": "1G",
                "requests.ephemeral-storage": "1G",
            },
        ),
        # Running: 1 + 2 (sidecar) = 3. Starting: 3 beside the sidecar before it = 5. The larger: 5.
        (
            pod(
                container(limits={"cpu": "1"}),
                init=[container("s", always=True, limits={"cpu": "2"}), container("i", limits={"cpu": "3"})],
            ),
            {"limits.cpu": "5"},
        ),
        # In the other order the init container starts alone: max(3, 1 + 2) = 3.
        (
            pod(
                container(limits={"cpu": "1"}),
                init=[container("i", limits={"cpu": "3"}), container("s", always=True, limits={"cpu": "2"})],
            ),
            {"limits.cpu": "3"},
        ),
        # The overhead comes on top of requests (1 + 250m), and of limits where there are any (none for memory).
        (
            pod(
                container(requests={"cpu": "1"}, limits={"cpu": "1"}),
                overhead={"cpu": "250m", "memory": "10Mi"},
            ),
            {
                "cpu": "1250m",
                "requests.cpu": "1250m",
                "limits.cpu": "1250m",
                "memory": "10Mi",
                "requests.memory": "10Mi",
            },
        ),
        # What the pod says as a whole replaces the sum, for what it says; the limit stands in for a request of none.
        (
            pod(
                container(requests={"cpu": "1", "nvidia.com/gpu": "1"}),
                resources={"requests": {"cpu": "5"}, "limits": {"cpu": "6", "memory": "1Gi"}},
            ),
            {
                "cpu": "5",
                "requests.cpu": "5",
                "requests.nvidia.com/gpu": "1",
                "memory": "1Gi",
                "requests.memory": "1Gi",
                "limits.cpu": "6",
                "limits.memory": "1Gi",
            },
        ),
        # A sum keeps the notation it began with: 100Mi + 1M = 104857600 + 1000000.
        (
            pod(container(limits={"memory": "100Mi"}), container("b", limits={"memory": "1M"})),
            {"limits.memory": "105857600"},
        ),
    ],
)
def test_amounts(found, expected):
    assert counted(found) == expected


def test_which_names_count_pods():
    for name in ("pods", "cpu", "limits.memory", "requests.ephemeral-storage", "hugepages-1Gi", "requests.a.b/gpu"):
        assert counts(name), name
    for name in ("services", "nvidia.com/gpu", "limits.nvidia.com/gpu", "requests.kubernetes.io/x", "requests.storage"):
        assert not counts(name), name


@pytest.mark.parametrize(
    ("found", "names", "silent"),
    [
        (pod(), {"requests.cpu"}, "requests.cpu for: main"),
        (pod(container(requests={"cpu": "0"})), {"requests.cpu", "cpu"}, ""),
        (pod(container(requests={"cpu": "1"})), {"limits.cpu"}, "limits.cpu for: main"),
        (
            pod(container("b"), container("a", requests={"cpu": "1"}), init=[container("i")]),
            {"memory", "cpu"},
            "cpu for: b,i; memory for: a,b,i",
        ),
        # Nobody has to speak of anything else, nor for a pod that speaks for its containers.
        (pod(), {"ephemeral-storage", "requests.nvidia.com/gpu", "pods", "hugepages-2Mi"}, ""),
        (pod(resources={"requests": {"memory": "1"}}), {"cpu"}, ""),
        (pod(resources={}), {"cpu"}, "cpu for: main"),
    ],
)
def test_containers_must_specify_resources_limited_by_quota(found, names, silent):
    assert unspecified(found["spec"], names) == silent


def term(**more):
    return {"topologyKey": "zone", **more}


@pytest.mark.parametrize(
    ("found", "scopes"),
    [
        (pod(), {"BestEffort", "NotTerminating"}),
        (pod(container(requests={"cpu": "1"})), {"NotBestEffort", "NotTerminating"}),
        (pod(activeDeadlineSeconds=5), {"BestEffort", "Terminating"}),
        (pod(priorityClassName="high"), {"BestEffort", "NotTerminating", "PriorityClass"}),
        (
            pod(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term()]}}),
            {"BestEffort", "NotTerminating"},
        ),
        (
            pod(
                affinity={
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 1, "podAffinityTerm": term(namespaces=["x"])}
                        ]
                    }
                }
            ),
            {"BestEffort", "NotTerminating", "CrossNamespacePodAffinity"},
        ),
    ],
)
def test_scopes(found, scopes):
    known = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "PriorityClass")
    known += ("CrossNamespacePodAffinity", "VolumeAttributesClass")
    assert {name for name in known if in_scope(found, {"scopeName": name, "operator": "Exists"})} == scopes


@pytest.mark.parametrize(
    ("operator", "values", "takes"),
    [
        ("In", ["high", "low"], {"high"}),
        ("NotIn", ["high"], {"", "other"}),
        ("Exists", None, {"high", "other"}),
        ("DoesNotExist", None, {""}),
    ],
)
def test_scopes_by_priority_class(operator, values, takes):
    scope = {"scopeName": "PriorityClass", "operator": operator} | ({"values": values} if values else {})
    pods = {name: pod(**({"priorityClassName": name} if name else {})) for name in ("", "high", "other")}
    assert {name for name, found in pods.items() if in_scope(found, scope)} == takes
