"""A pod's request: tables with the arithmetic, and the definition step by step."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.pod_request import Container, pod_request
from kubebase.quantity import parse
from kubebase.resource_vector import LARGEST_AMOUNT, Registry, ResourceError, fits

GPU = "nvidia.com/gpu"
HUGE = "hugepages-2Mi"
Amounts = Mapping[str, str | int | float]


def asks(requests: Amounts | None = None, limits: Amounts | None = None) -> Container:
    return {"name": "main", "image": "busybox", "resources": {"requests": requests, "limits": limits}}


def sidecar(requests: Amounts) -> Container:
    return {"restartPolicy": "Always", **asks(requests)}


def cpu(text: str | float) -> Container:
    return asks({"cpu": text})


def cpu_of(*fields: Any, **more: Any) -> int:
    return pod_request(Registry(), *fields, **more)[0]


def test_containers_add_up() -> None:
    registry = Registry()
    # cpu 500 + 1500 = 2000 m; memory 1Gi + 512Mi = 1536Mi; 1 pod; gpu 1 = 1000 m
    request = pod_request(
        registry, [asks({"cpu": "500m", "memory": "1Gi"}), asks({"cpu": 1.5, "memory": "512Mi", GPU: 1})]
    )
    assert request == (2000, 1536 * 2**20, 1, 1000)
    assert registry.names == ("cpu", "memory", "pods", GPU)


@pytest.mark.parametrize("container", [{}, {"resources": None}, {"resources": {}}, asks(None, None), asks({}, {})])
def test_pod_without_requests_counts_as_one_pod(container: Container) -> None:
    assert pod_request(Registry(), [container]) == (0, 0, 1)
    assert pod_request(Registry(), []) == (0, 0, 1)


def test_pods_resource_is_always_one() -> None:
    assert pod_request(Registry(), [asks({"pods": "5"})], overhead={"pods": "2"}) == (0, 0, 1)


def test_missing_request_defaults_to_the_limit() -> None:
    # cpu: asked 100 m, limit 2 -> 100 m; memory: only the limit, 1Ki; gpu: only the limit, 1000 m
    container = asks({"cpu": "100m"}, {"cpu": "2", "memory": "1Ki", GPU: "1"})
    assert pod_request(Registry(), [container]) == (100, 1024, 1, 1000)
    # an explicit 0 is a request
    assert cpu_of([asks({"cpu": 0}, {"cpu": "2"})]) == 0
    # init containers alike: max(1, 3)
    assert cpu_of([cpu("1")], [asks(None, {"cpu": "3"})]) == 3000


@pytest.mark.parametrize(
    ("app", "init", "milli"),
    [
        # an init container runs alone: max(1 + 1, 3) = 3, max(1 + 1, 1) = 2
        (["1", "1"], ["3"], 3000),
        (["1", "1"], ["1"], 2000),
        # one after another: max(1, 2, 5, 3) = 5
        (["1"], ["2", "5", "3"], 5000),
        # a sidecar stays: 1 + 2 = 3
        (["1"], ["+2"], 3000),
        # started before the init container, it adds to it: max(1 + 2, 4 + 2) = 6
        (["1"], ["+2", "4"], 6000),
        # started after it, it does not: max(1 + 2, 4) = 4
        (["1"], ["4", "+2"], 4000),
        # between two: max(1 + 2 + 1, 4, 3 + 2, 1 + 2 + 1) = 5
        (["1"], ["4", "+2", "3", "+1", "1"], 5000),
        # only init containers: max(2, 1) = 2
        ([], ["2", "1"], 2000),
    ],
)
def test_init_containers(app: list[str], init: list[str], milli: int) -> None:
    """`+` marks a sidecar."""
    steps = [sidecar({"cpu": text[1:]}) if text.startswith("+") else cpu(text) for text in init]
    assert cpu_of([cpu(text) for text in app], steps) == milli


def test_init_container_peak_is_taken_per_resource() -> None:
    # cpu: max(1 + .5, 4) = 4; memory: max(8 + 1, 2) = 9 Ki
    request = pod_request(
        Registry(),
        [asks({"cpu": "1", "memory": "8Ki"})],
        [asks({"cpu": "4", "memory": "2Ki"}), sidecar({"cpu": "500m", "memory": "1Ki"})],
    )
    assert request == (4000, 9 * 1024, 1)


def test_init_container_is_a_sidecar_only_with_restart_policy_always() -> None:
    assert cpu_of([cpu("1")], [{**cpu("2"), "restartPolicy": "OnFailure"}]) == 2000


def test_overhead_comes_on_top() -> None:
    # max(1, 3) + 0.25 = 3.25; a resource of the overhead alone counts too
    assert pod_request(Registry(), [cpu("1")], [cpu("3")], {"cpu": "250m", "memory": "1Ki"}) == (
        3250,
        1024,
        1,
    )


@pytest.mark.parametrize(
    ("pod_level", "expected"),
    [
        # counted: cpu 1 + 1 = 2, memory 1Ki, gpu 1, hugepages 2Mi (in milli)
        (None, (2000, 1024, 1, 1000, 2**21 * 1000)),
        ({}, (2000, 1024, 1, 1000, 2**21 * 1000)),
        ({"requests": None, "limits": None}, (2000, 1024, 1, 1000, 2**21 * 1000)),
        # a request replaces what was counted, upwards or downwards
        ({"requests": {"cpu": "5"}}, (5000, 1024, 1, 1000, 2**21 * 1000)),
        ({"requests": {"cpu": "1", "memory": "3Ki"}}, (1000, 3072, 1, 1000, 2**21 * 1000)),
        ({"requests": {HUGE: "4Mi"}}, (2000, 1024, 1, 1000, 2**22 * 1000)),
        # but not for other resources
        ({"requests": {GPU: "8"}}, (2000, 1024, 1, 1000, 2**21 * 1000)),
        ({"limits": {GPU: "8", "tpu": "1"}}, (2000, 1024, 1, 1000, 2**21 * 1000)),
        # a limit leaves what the containers ask for, except for huge pages
        ({"limits": {"cpu": "9", "memory": "9Ki"}}, (2000, 1024, 1, 1000, 2**21 * 1000)),
        ({"limits": {HUGE: "8Mi"}}, (2000, 1024, 1, 1000, 2**23 * 1000)),
        ({"requests": {"cpu": "3"}, "limits": {"cpu": "9"}}, (3000, 1024, 1, 1000, 2**21 * 1000)),
        # and never goes before a request
        ({"requests": {HUGE: "4Mi"}, "limits": {HUGE: "8Mi"}}, (2000, 1024, 1, 1000, 2**22 * 1000)),
    ],
)
def test_pod_level_resources(pod_level: Any, expected: tuple[int, ...]) -> None:
    containers = [asks({"cpu": "1", "memory": "1Ki", GPU: "1", HUGE: "2Mi"}), cpu("1")]
    assert pod_request(Registry(), containers, (), None, pod_level) == expected


def test_pod_level_limit_stands_in_where_no_container_asks() -> None:
    assert pod_request(Registry(), [{}], (), None, {"limits": {"cpu": "2", "memory": "1Ki"}}) == (
        2000,
        1024,
        1,
    )
    # an explicit 0 of a container is asking
    assert cpu_of([cpu(0)], (), None, {"limits": {"cpu": "2"}}) == 0


def test_overhead_comes_on_top_of_the_pod_level_request() -> None:
    # 2 + 0.5, whatever the container asks for
    assert cpu_of([cpu("1")], (), {"cpu": "500m"}, {"requests": {"cpu": "2"}}) == 2500


def test_rounding() -> None:
    # every quantity is stored in whole milli: 0.0001 + 0.0001 cpu -> 1 + 1 m
    assert cpu_of([cpu("100u"), cpu("100u")]) == 2
    # the sum is rounded once: 0.4 + 0.4 byte -> 1 byte; 0.6 + 0.6 = 1.2 -> 2 bytes
    assert pod_request(Registry(), [asks({"memory": "400m"})] * 2)[1] == 1
    assert pod_request(Registry(), [asks({"memory": "600m"})] * 2)[1] == 2


def test_sums_stop_at_the_largest_amount() -> None:
    request = pod_request(Registry(), [asks({"cpu": "9P", "memory": "8Ei"})] * 2)
    assert request == (LARGEST_AMOUNT, LARGEST_AMOUNT, 1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"containers": [cpu("1"), cpu("1x")]},
            "spec.containers[1].resources.requests.cpu: '1x' is not a quantity; write for example 2, 500m or 4Gi",
        ),
        (
            {"containers": [], "init_containers": [asks(None, {"memory": "-1"})]},
            "spec.initContainers[0].resources.limits.memory: '-1' is negative; "
            "write 0 or more, for example 2, 500m or 4Gi",
        ),
        (
            {"containers": [], "overhead": {"cpu": ""}},
            "spec.overhead.cpu: '' is not a quantity; write for example 2, 500m or 4Gi",
        ),
        (
            {"containers": [], "pod_level": {"requests": {"cpu": "x"}}},
            "spec.resources.requests.cpu: 'x' is not a quantity; write for example 2, 500m or 4Gi",
        ),
        (
            {"containers": [{"resources": "2 cpus"}]},
            "spec.containers[0].resources: str given, but a mapping is needed; "
            "write for example {requests: {cpu: 500m, memory: 4Gi}}",
        ),
        (
            {"containers": [{"resources": {"requests": ["cpu"]}}]},
            "spec.containers[0].resources.requests: list given, "
            "but a mapping of resource to quantity is needed; write for example {cpu: 500m, memory: 4Gi}",
        ),
        (
            {"containers": ["main"]},
            "spec.containers[0]: str given, but a mapping is needed; "
            "write for example {resources: {requests: {cpu: 500m}}}",
        ),
    ],
)
def test_errors_name_the_place(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ResourceError) as error:
        pod_request(Registry(), **fields)
    assert str(error.value) == message


def test_the_path_of_the_spec_can_be_given() -> None:
    with pytest.raises(ResourceError, match=r"^spec\.tasks\[0\]\.template\.spec\.containers\[0\]\.resources"):
        pod_request(Registry(), [cpu("?")], where="spec.tasks[0].template.spec")


names = st.sampled_from(["cpu", "memory", GPU, HUGE])
texts = st.integers(0, 40).map(str) | st.integers(0, 5000).map("{}m".format) | st.sampled_from(["1Ki", "0.5Mi", "1e3"])
resource_lists = st.dictionaries(names, texts, max_size=3)
apps = st.lists(st.builds(asks, resource_lists, resource_lists), max_size=3)
inits = st.lists(st.builds(asks, resource_lists, resource_lists) | st.builds(sidecar, resource_lists), max_size=5)


def asked(container: Container, name: str) -> int:
    """Milli of one resource that one container asks for."""
    resources: Any = container["resources"]
    for field in ("requests", "limits"):
        if name in (resources[field] or {}):
            return parse(resources[field][name]).milli()
    return 0


def use_over_time(app: list[Container], init: list[Container], name: str) -> list[int]:
    """What is used at each step of the pod's life: every init container in turn, then the apps."""
    steps, staying = [], 0
    for container in init:
        steps.append(staying + asked(container, name))
        if "restartPolicy" in container:
            staying += asked(container, name)
    return [*steps, staying + sum(asked(container, name) for container in app)]


@given(apps, inits, resource_lists)
def test_request_is_the_peak_use_plus_overhead(
    app: list[Container], init: list[Container], overhead: dict[str, str]
) -> None:
    registry = Registry()
    request = pod_request(registry, app, init, overhead)
    for name, amount in zip(registry, request, strict=True):
        milli = max(use_over_time(app, init, name)) + (parse(overhead[name]).milli() if name in overhead else 0)
        if name == "pods":
            assert amount == 1
        elif name == "memory":
            assert 0 <= amount * 1000 - milli < 1000
        else:
            assert amount == milli


@given(apps, inits, st.builds(asks, resource_lists), st.integers(0, 5), st.booleans())
def test_one_more_container_never_lowers_the_request(
    app: list[Container], init: list[Container], more: Container, place: int, in_front: bool
) -> None:
    registry = Registry()
    before = pod_request(registry, app, init)
    if in_front:
        after = pod_request(registry, app, [*init[:place], more, *init[place:]])
    else:
        after = pod_request(registry, [*app, more], init)
    assert fits(before, after)


@given(apps, inits, st.randoms(use_true_random=False))
def test_the_order_of_app_containers_does_not_matter(app: list[Container], init: list[Container], random: Any) -> None:
    registry = Registry()
    before = registry.format(pod_request(registry, app, init))
    shuffled = random.sample(app, len(app))
    assert registry.format(pod_request(registry, shuffled, init)) == before


@given(apps, inits)
def test_pod_request_does_not_modify_the_spec(app: list[Container], init: list[Container]) -> None:
    text = repr((app, init))
    first = pod_request(Registry(), app, init)
    assert repr((app, init)) == text
    assert pod_request(Registry(), app, init) == first
