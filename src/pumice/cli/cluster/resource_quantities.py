"""Resource quantities on the command line (``cpu=2,memory=4Gi``) and in tables."""

from __future__ import annotations

from collections.abc import Mapping

import click

BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
LISTED_FIRST = ("cpu", "memory")
"""Resources that are listed first; the others follow by name."""


def parse_quantities(ctx: click.Context, param: click.Parameter, value: str | None) -> dict[str, str]:
    """Parse quantities by resource; raises BadParameter for an invalid part."""
    from kubebase.quantity import QuantityError, parse

    found: dict[str, str] = {}
    for part in value.split(",") if value else ():
        name, equals, amount = (piece.strip() for piece in part.partition("="))
        if not (name and equals and amount):
            raise click.BadParameter(f"{part!r} is not NAME=QUANTITY; for example cpu=2,memory=4Gi", ctx, param)
        if name in found:
            raise click.BadParameter(f"{name} is given twice", ctx, param)
        try:
            negative = parse(amount).nano < 0
        except QuantityError as error:
            raise click.BadParameter(f"{name}: {error}", ctx, param) from None
        if negative:
            raise click.BadParameter(f"{name}: {amount} is negative", ctx, param)
        found[name] = amount
    return found


def format_quantities(amounts: object, *, zeros: bool = True) -> str:
    """Format quantities as ``cpu=2,memory=4Gi`` with few digits; ``-`` if there are none."""
    if not isinstance(amounts, Mapping):
        return "-"
    names = [*(name for name in LISTED_FIRST if name in amounts), *sorted(set(amounts) - set(LISTED_FIRST))]
    parts = [f"{name}={shown}" for name in names if (shown := _format_quantity(name, amounts[name])) != "0" or zeros]
    return ",".join(parts) or "-"


def _format_quantity(name: str, amount: object) -> str:
    from kubebase.quantity import NANOS, QuantityError, parse

    try:
        number = parse(str(amount)).nano / NANOS
    except QuantityError:
        return str(amount)
    if name != "memory" and not name.endswith("-storage") and not name.startswith("hugepages-"):
        return f"{number:.3f}".rstrip("0").rstrip(".")
    power = 0
    while abs(number) >= 1024 and power < len(BINARY_SUFFIXES) - 1:
        number, power = number / 1024, power + 1
    return f"{number:.1f}".removesuffix(".0") + BINARY_SUFFIXES[power]
