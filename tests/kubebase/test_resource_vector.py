"""Resource vectors: places, units, canonical text and arithmetic."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.quantity import parse
from kubebase.resource_vector import (
    CPU,
    LARGEST_AMOUNT,
    MEMORY,
    MOST_RESOURCES,
    PODS,
    Registry,
    ResourceError,
    add,
    dominant_share,
    fits,
    subtract,
    widen,
)

GPU = "nvidia.com/gpu"


def test_places_are_given_in_order_of_appearance() -> None:
    registry = Registry()
    assert registry.names == ("cpu", "memory", "pods")
    assert (registry.index("cpu"), registry.index("memory"), registry.index("pods")) == (CPU, MEMORY, PODS)
    assert registry.index(GPU) == 3
    assert registry.index("ephemeral-storage") == 4
    assert registry.index(GPU) == 3
    assert len(registry) == 5
    assert list(registry) == ["cpu", "memory", "pods", GPU, "ephemeral-storage"]
    assert GPU in registry
    assert "amd.com/gpu" not in registry


@pytest.mark.parametrize(
    ("name", "quantity", "amount"),
    [
        # cpu in milli, rounded up: 0.1 m -> 1 m
        ("cpu", "2", 2000),
        ("cpu", "500m", 500),
        ("cpu", 1.5, 1500),
        ("cpu", "100u", 1),
        # memory in bytes: 0.3 bytes -> 1 byte
        ("memory", "4Gi", 4 * 2**30),
        ("memory", "5G", 5 * 10**9),
        ("memory", 1024, 1024),
        ("memory", "300m", 1),
        # pods in units
        ("pods", "110", 110),
        ("pods", "1100m", 2),
        # everything else in milli
        (GPU, "1", 1000),
        (GPU, "1500m", 1500),
        ("ephemeral-storage", "1Ki", 1_024_000),
        ("hugepages-2Mi", "1n", 1),
        # the largest amount: 8Ei is 2^63 - 1 bytes; 10^16 gpus would be 10^19 milli
        ("memory", "8Ei", LARGEST_AMOUNT),
        ("memory", "100E", LARGEST_AMOUNT),
        (GPU, "10P", LARGEST_AMOUNT),
    ],
)
def test_amount(name: str, quantity: str | float, amount: int) -> None:
    registry = Registry()
    assert registry.amount(name, quantity) == amount
    assert registry.names == ("cpu", "memory", "pods"), "asking for an amount registers nothing"


def test_vector() -> None:
    registry = Registry()
    assert registry.vector({}, where="status.allocatable") == (0, 0, 0)
    # 2 cpu = 2000 m; 1Ki = 1024 bytes; 1 gpu = 1000 m, at the first free place
    first = registry.vector({GPU: 1, "memory": "1Ki", "cpu": "2"}, where="status.allocatable")
    assert first == (2000, 1024, 0, 1000)
    # a vector made later has the new places, one made before does not
    assert registry.vector({"tpu": "500m"}, where="x") == (0, 0, 0, 0, 500)
    assert registry.vector({"pods": 110}, where="x") == (0, 0, 110, 0, 0)
    assert widen(first, len(registry)) == (2000, 1024, 0, 1000, 0)


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        (
            {"memory": "1Gi", "cpu": "1x"},
            "spec.capability.cpu: '1x' is not a quantity; write for example 2, 500m or 4Gi",
        ),
        (
            {"memory": "4GB"},
            "spec.capability.memory: '4GB' is not a quantity; write 4G (powers of 1000) or 4Gi (powers of 1024)",
        ),
        (
            {GPU: "-1"},
            f"spec.capability.{GPU}: '-1' is negative; write 0 or more, for example 2, 500m or 4Gi",
        ),
        ({"cpu": -1}, "spec.capability.cpu: -1 is negative; write 0 or more, for example 2, 500m or 4Gi"),
        ({"cpu": None}, "spec.capability.cpu: None is not a quantity; write for example 2, 500m or 4Gi"),
        ({"cpu": True}, "spec.capability.cpu: True is not a quantity; write for example 2, 500m or 4Gi"),
        ({7: 1}, "spec.capability.7: a resource is named by a string; quote it"),
        (
            ["cpu"],
            "spec.capability: list given, but a mapping of resource to quantity is needed; "
            "write for example {cpu: 500m, memory: 4Gi}",
        ),
    ],
)
def test_errors_name_the_place(resources: dict[str, str], message: str) -> None:
    with pytest.raises(ResourceError) as error:
        Registry().vector(resources, where="spec.capability")
    assert str(error.value) == message


def test_error_of_a_single_amount_names_the_resource() -> None:
    with pytest.raises(ResourceError, match=r"^cpu: 'much' is not a quantity"):
        Registry().amount("cpu", "much")


@pytest.mark.parametrize(
    ("index", "amount", "text"),
    [
        (CPU, 5000, "5"),
        (CPU, 1500, "1500m"),
        (CPU, 0, "0"),
        (CPU, 2_000_000, "2k"),
        (PODS, 110, "110"),
        (3, 1000, "1"),
        (3, 1500, "1500m"),
        (3, 8000, "8"),
        # memory: binary in whole Ki, decimal in whole M, else plain
        (MEMORY, 0, "0"),
        (MEMORY, 5 * 10**9, "5G"),
        (MEMORY, 5 * 2**30, "5Gi"),
        (MEMORY, 3 * 2**29, "1536Mi"),
        (MEMORY, 1536, "1536"),
        (MEMORY, 16_393_232 * 1024, "16393232Ki"),
        (MEMORY, 1000 * 1024, "1000Ki"),
        (MEMORY, 1000 * 2**20, "1000Mi"),
        (MEMORY, 64 * 10**9, "64G"),  # = 62500000Ki
        (MEMORY, 2048 * 10**9, "2048G"),  # = 1953125Mi: whole in both, the shorter one
        (MEMORY, 125_000 * 2**30, "125000Gi"),  # = 134217728M: whole in both, the shorter one
        (MEMORY, 10**6, "1M"),
        (MEMORY, 1_234_567, "1234567"),
        (MEMORY, LARGEST_AMOUNT, "9223372036854775807"),
        (MEMORY, -5 * 2**30, "-5Gi"),
    ],
)
def test_format_amount(index: int, amount: int, text: str) -> None:
    assert Registry().format_amount(index, amount) == text


def test_format() -> None:
    registry = Registry()
    registry.index(GPU)
    registry.index("a")
    assert registry.format((5000, 5 * 10**9, 0, 2000, 0)) == {"cpu": "5", "memory": "5G", GPU: "2"}
    everything = registry.format((5000, 0, 1), zeros=True)
    assert everything == {"cpu": "5", "memory": "0", "pods": "1"}
    assert list(registry.format((1, 1, 1, 1, 1))) == ["a", "cpu", "memory", GPU, "pods"]
    with pytest.raises(IndexError):
        registry.format((1,) * 6)


@pytest.mark.parametrize(
    ("a", "b", "total", "difference", "fit"),
    [
        ((1, 2, 3), (3, 2, 3), (4, 4, 6), (-2, 0, 0), True),
        ((1, 2, 4), (3, 2, 3), (4, 4, 7), (-2, 0, 1), False),
        # a missing place is 0
        ((1, 2), (1, 2, 5), (2, 4, 5), (0, 0, -5), True),
        ((1, 2, 5), (1, 2), (2, 4, 5), (0, 0, 5), False),
        ((1, 2, 0), (1, 2), (2, 4, 0), (0, 0, 0), True),
        ((1,), (1, -1), (2, -1), (0, 1), False),
        ((), (), (), (), True),
    ],
)
def test_arithmetic(
    a: tuple[int, ...], b: tuple[int, ...], total: tuple[int, ...], difference: tuple[int, ...], fit: bool
) -> None:
    assert add(a, b) == total
    assert subtract(a, b) == difference
    assert fits(a, b) is fit
    assert add(list(a), b) == total


def test_widen() -> None:
    assert widen((1, 2), 4) == (1, 2, 0, 0)
    assert widen([1, 2], 2) == (1, 2)
    assert widen((1, 2, 3), 2) == (1, 2, 3)


@pytest.mark.parametrize(
    ("vector", "capacity", "share"),
    [
        # docs/fairness.md, section 2:
        # cluster 100 cpu, 400 GB; A 30/40: max(.3, .1); B 10/200: max(.1, .5); C 20/80: .2, .2
        ((30_000, 40 * 10**9, 7), (100_000, 400 * 10**9, 10), 0.3),
        ((10_000, 200 * 10**9, 7), (100_000, 400 * 10**9, 10), 0.5),
        ((20_000, 80 * 10**9, 7), (100_000, 400 * 10**9, 10), 0.2),
        # nothing of nothing is 0, something of nothing is all
        ((0, 0, 0), (0, 0, 0), 0.0),
        ((1, 0, 0), (0, 10, 10), 1.0),
        ((1, 0, 0, 1), (10, 10, 10), 1.0),
        ((1, 0, 0, 0), (10, 10, 10), 0.1),
        ((1,), (10, 10, 10), 0.1),
        # over the capacity it exceeds 1
        ((1, 25, 0), (0, 10, 10), 2.5),
        # pods never count
        ((0, 1, 10), (10, 10, 10), 0.1),
    ],
)
def test_dominant_share(vector: tuple[int, ...], capacity: tuple[int, ...], share: float) -> None:
    assert dominant_share(vector, capacity) == share


amounts = st.integers(0, 2**50)
vectors = st.lists(amounts, max_size=5).map(tuple)


@given(vectors, vectors)
def test_arithmetic_is_that_of_widened_vectors(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    length = max(len(a), len(b))
    wide_a, wide_b = widen(a, length), widen(b, length)
    assert add(a, b) == tuple(x + y for x, y in zip(wide_a, wide_b, strict=True)) == add(b, a)
    assert subtract(a, b) == tuple(x - y for x, y in zip(wide_a, wide_b, strict=True))
    assert subtract(add(a, b), b) == wide_a
    assert fits(a, b) == all(x <= y for x, y in zip(wide_a, wide_b, strict=True))
    assert fits(a, add(a, b))


@given(vectors, vectors)
def test_dominant_share_is_the_largest_fraction(vector: tuple[int, ...], capacity: tuple[int, ...]) -> None:
    held, whole = widen(vector, 5), widen(capacity, 5)
    shares = [
        Fraction(held[place], whole[place]) if whole[place] else Fraction(bool(held[place]))
        for place in range(5)
        if place != PODS
    ]
    assert dominant_share(vector, capacity) == float(max(shares))


@given(st.sampled_from([CPU, MEMORY, PODS, 3]), st.integers(0, LARGEST_AMOUNT) | st.integers(0, 10**7))
def test_printed_amount_reads_back_the_same(index: int, amount: int) -> None:
    registry = Registry()
    registry.index(GPU)
    text = registry.format_amount(index, amount)
    assert registry.amount(registry.names[index], text) == amount


@given(
    st.builds(
        lambda number, unit: number * unit,
        st.integers(1, 5000),
        st.sampled_from([2**10, 2**20, 2**30, 10**6, 10**9]),
    )
)
def test_printed_memory_is_canonical(amount: int) -> None:
    text = Registry().format_amount(MEMORY, amount)
    assert parse(text).format() == text
    if amount % 10**6 == 0 and amount % 2**20:
        assert not text.endswith("i")
    elif amount % 10**6 and amount % 2**10 == 0 and amount > 2**10:
        assert text.endswith("i")


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["cpu", "memory", "pods", GPU, "tpu"]), st.integers(0, 10**9)),
        max_size=4,
    )
)
def test_vector_and_format_are_inverse(lists: list[dict[str, int]]) -> None:
    registry = Registry()
    made = [registry.vector(resources, where="x") for resources in lists]
    for resources, vector in zip(lists, made, strict=True):
        printed = registry.format(vector)
        assert {name: parse(text).value() for name, text in printed.items()} == {
            name: number for name, number in resources.items() if number
        }
        assert list(printed) == sorted(printed)
        assert registry.vector(printed, where="x") == widen(vector, len(registry))


def test_only_so_many_resources_have_a_place():
    registry = Registry()
    registry.vector({f"example.com/r{number}": 1 for number in range(MOST_RESOURCES - 3)}, where="spec")
    assert len(registry) == MOST_RESOURCES
    with pytest.raises(ResourceError, match=r"example.com/more: too many resource names"):
        registry.vector({"example.com/more": 1}, where="spec")
    assert registry.vector({"example.com/r0": 1, "cpu": 1}, where="spec")[0] == 1000
    assert len(registry) == MOST_RESOURCES
