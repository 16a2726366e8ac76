"""Resources whose objects are reduced as soon as they are decoded.

A process that follows tens of thousands of objects keeps all of them in memory, and needs little of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import msgspec

from pumice.kube.resources import Resource

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ReducedResource(Resource[T], Generic[T]):
    """A resource whose objects are reduced when they are decoded."""

    source: Resource[Any] | None = None
    reduce: Callable[[Any], T] | None = None

    def decode(self, content: bytes | msgspec.Raw) -> T:
        """Decode and reduce one object; raises ``ObjectError``."""
        assert self.source is not None
        assert self.reduce is not None
        return self.reduce(self.source.decode(content))


def reduced_resource(source: Resource[S], reduce: Callable[[S], T]) -> ReducedResource[T]:
    """A resource that is decoded as ``source`` is, and then reduced."""
    return ReducedResource(
        source.api_version,
        source.plural,
        source.kind,
        cast("type[T]", object),  # nothing is decoded to the shape itself
        source.optional,
        namespaced=source.namespaced,
        source=source,
        reduce=reduce,
    )
