"""What is wrong with what somebody wrote: which file, which object, which field, and what would be right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. Parts that are not known are empty."""

    file: str
    object: str
    field: str
    message: str

    @property
    def reason(self) -> str:
        """Field and message, for those who know the object already."""
        return f"{self.field}: {self.message}" if self.field else self.message

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.object, self.field, self.message) if part)


class BadInput(ValueError):  # noqa: N818 - it names the exit status it leads to, and carries several errors
    """Input that can't be used; nothing was run. All that is known to be wrong, not only the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``, did you mean 'x'?`` where something known looks alike, else nothing."""
    import difflib  # noqa: PLC0415 - of some size, and most names are right

    by_lower = {candidate.lower(): candidate for candidate in sorted(known)}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f", did you mean '{by_lower[close[0]]}'?" if close else ""
