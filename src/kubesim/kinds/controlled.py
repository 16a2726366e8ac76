"""The strategy that kinds with a controller share: a status that the controller writes, and defaults for the spec."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Final

from kubesim.api.field_errors import FieldProblem, invalid
from kubesim.registry.registry import Context, Object, Strategy

NOT_NEGATIVE: Final = "must be greater than or equal to 0"


class ControlledStrategy(Strategy):
    """Objects start with ``_initial_status``; create and update fill in the same defaults (``_complete``)."""

    has_generation = True

    def on_create(self, new: Object, context: Context) -> None:
        """Nothing runs yet."""
        new["status"] = self._initial_status()
        self._complete(new)

    def on_update(self, new: Object, old: Object, context: Context) -> None:
        """Defaults, as on create."""
        new["spec"] = copy.deepcopy(new["spec"])  # parts of it may be those of the old state
        self._complete(new)

    def _initial_status(self) -> Object:
        return {}

    def _complete(self, new: Object) -> None:
        """Fill in the defaults of the spec."""

    def check_status(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """Counts are not negative."""
        yield from check_counts(new, "status", tuple(new["status"]))


def check_counts(found: Object, where: str, fields: tuple[str, ...]) -> Iterator[FieldProblem]:
    """The problems of numbers in the spec or the status; fields that hold something else are passed over."""
    for field in fields:
        count = found[where].get(field, 0)
        if isinstance(count, int) and count < 0:
            yield invalid(f"{where}.{field}", count, NOT_NEGATIVE)
