"""Resource vectors: node capacities, queue limits and task requests as tuples of integers.

A `Registry` gives every resource name a fixed index in the vectors: cpu, memory and pods first, the
others in the order in which they are first seen. Amounts are integers, rounded up: cpu in milli, memory
in bytes, pods in units, every other resource in milli.

The registry grows while the cluster is running. A vector that was created earlier is shorter, and
every function here treats its missing elements as 0; `widen` pads it where the length must match.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from operator import add as plus
from operator import le, sub
from typing import Any, TypeAlias

from kubebase.quantity import Notation, Quantity, QuantityError, Scalar, parse

CPU, MEMORY, PODS = 0, 1, 2

LARGEST_AMOUNT = 2**63 - 1
"""The maximum amount, so that every vector fits into 64-bit arrays."""

MOST_RESOURCES = 256
"""The maximum number of resource names. Every vector has an element for each, and users can invent names in pods."""

Vector: TypeAlias = tuple[int, ...]
ResourceList: TypeAlias = Mapping[str, Scalar]
"""Quantities by resource name, as a manifest has them."""

_WHOLE_UNITS = (MEMORY, PODS)


class ResourceError(ValueError):
    """An invalid resource list; the message names the place."""


class Registry:
    """The resources known so far and the place of each in a vector."""

    __slots__ = ("_index",)

    def __init__(self) -> None:
        self._index = {"cpu": CPU, "memory": MEMORY, "pods": PODS}

    def index(self, name: str) -> int:
        """The place of a resource, a new one at the end when it is seen for the first time."""
        if len(self._index) >= MOST_RESOURCES and name not in self._index:
            raise ResourceError(f"{name}: too many resource names: the limit is {MOST_RESOURCES}, and this one is new")
        return self._index.setdefault(name, len(self._index))

    @property
    def names(self) -> tuple[str, ...]:
        """The resource names in the order of their places."""
        return tuple(self._index)

    def __len__(self) -> int:
        return len(self._index)

    def __iter__(self) -> Iterator[str]:
        return iter(self._index)

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def amount(self, name: str, quantity: Scalar) -> int:
        """The quantity in the integer unit of the resource, rounded up."""
        milli = milli_amounts({name: quantity}, where="")[name]
        return _in_unit(self._index.get(name, len(self._index)), milli)

    def vector(self, resources: ResourceList, *, where: str) -> Vector:
        """The resource list as a vector of all resources known; `where` is its path, for errors."""
        return self.vector_of_milli(milli_amounts(resources, where=where))

    def vector_of_milli(self, amounts: Mapping[str, int]) -> Vector:
        """Exact amounts in milli as a vector of all resources known, rounded up to their units."""
        places = [(self.index(name), milli) for name, milli in amounts.items()]
        vector = [0] * len(self._index)
        for index, milli in places:
            vector[index] = _in_unit(index, milli)
        return tuple(vector)

    def format_amount(self, index: int, amount: int) -> str:
        """The canonical text of an amount of the resource at this place."""
        if index == MEMORY:
            return _format_bytes(amount)
        return Quantity(amount * (10**9 if index in _WHOLE_UNITS else 10**6)).format()

    def format(self, vector: Sequence[int], *, zeros: bool = False) -> dict[str, str]:
        """The canonical resource list of a vector, sorted by name; amounts of 0 only on request."""
        names = self.names
        texts = {
            names[index]: self.format_amount(index, amount) for index, amount in enumerate(vector) if amount or zeros
        }
        return dict(sorted(texts.items()))


def milli_amounts(resources: ResourceList, *, where: str) -> dict[str, int]:
    """The amounts of a resource list in milli, rounded up and checked: no vector has an amount below 0.

    Nothing finer than milli is kept, because the API server stores none in a resource list either.
    """
    if not isinstance(resources, Mapping):
        raise ResourceError(
            f"{where}: {type(resources).__name__} given, but a mapping of resource to quantity is needed; "
            "write for example {cpu: 500m, memory: 4Gi}"
        )
    amounts = {}
    given: Mapping[Any, Any] = resources  # as a user wrote it: names and quantities may be anything
    for name, quantity in given.items():
        try:
            milli = parse(quantity).milli()
        except QuantityError as error:
            raise ResourceError(f"{_path(where, name)}: {error}") from None
        if milli < 0:
            raise ResourceError(
                f"{_path(where, name)}: {quantity!r} is negative; write 0 or more, for example 2, 500m or 4Gi"
            )
        if not isinstance(name, str):
            raise ResourceError(f"{_path(where, name)}: a resource is named by a string; quote it")
        amounts[name] = milli
    return amounts


def widen(vector: Sequence[int], length: int) -> Vector:
    """The vector padded with zeros to this length (unchanged if it is not shorter)."""
    return (*vector, *(0,) * (length - len(vector)))


def add(a: Sequence[int], b: Sequence[int]) -> Vector:
    """a + b."""
    if len(a) == len(b):
        return tuple(map(plus, a, b))
    return tuple(x + y for x, y in zip_longest(a, b, fillvalue=0))


def subtract(a: Sequence[int], b: Sequence[int]) -> Vector:
    """a - b; places may become negative."""
    if len(a) == len(b):
        return tuple(map(sub, a, b))
    return tuple(x - y for x, y in zip_longest(a, b, fillvalue=0))


def fits(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether a <= b in every place."""
    if len(a) == len(b):
        return all(map(le, a, b))
    return all(x <= y for x, y in zip_longest(a, b, fillvalue=0))


def dominant_share(vector: Sequence[int], capacity: Sequence[int]) -> float:
    """The largest part of the capacity that the vector holds of any resource; places on nodes do not count.

    Something held of a resource of which there is none counts as all of it. A hot loop: every key of a job or namespace
    is computed here.
    """
    share = 0.0
    try:
        for place, held in enumerate(vector):
            if held and place != PODS:
                whole = capacity[place]
                part = held / whole if whole > 0 else 1.0
                if part > share:
                    share = part
    except IndexError:  # the capacity knows fewer resources: of the others there is none
        return dominant_share(vector, [*capacity, *[0] * (len(vector) - len(capacity))])
    return share


def _in_unit(index: int, milli: int) -> int:
    return min(-(-milli // 1000) if index in _WHOLE_UNITS else milli, LARGEST_AMOUNT)


def _format_bytes(amount: int) -> str:
    """Bytes with a suffix: 5G, 5Gi, 1536Mi.

    Binary if it is a whole number of Ki, except for a whole number of M that is shorter in decimal
    (2048G is also 1953125Mi); decimal otherwise.
    """
    decimal = Quantity(amount * 10**9).format()
    if amount % 1024:
        return decimal
    binary = Quantity(amount * 10**9, Notation.BINARY_SI).format()
    return decimal if amount % 10**6 == 0 and len(decimal) < len(binary) else binary


def _path(where: str, name: object) -> str:
    return f"{where}.{name}" if where else str(name)
