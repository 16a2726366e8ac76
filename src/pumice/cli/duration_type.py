"""A duration as an option of a command."""

from __future__ import annotations

import click


class DurationType(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic from click 8.3 on
    """A duration such as 90s or 2d, in microseconds."""

    name = "DURATION"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the text."""
        from pumice.model.duration import DurationError, microseconds_of

        if isinstance(value, int):
            return value
        try:
            return 0 if value == "0" else microseconds_of(str(value))
        except DurationError as error:
            self.fail(str(error).removeprefix("Invalid value: "), param, ctx)  # which click says too
