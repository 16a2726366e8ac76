"""The result of a check: findings by severity, with the objects that each concerns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pumice.admission.volcano_support import Support

SHOWN_OBJECTS = 3
"""Maximum number of objects that a line of text names."""


class Severity(Enum):
    """What a finding means for a migration."""

    LOST = "lost"
    """Stops working, or has no effect any more."""
    DIFFERS = "differs"
    """Keeps working in another way."""
    INFO = "info"
    """Stays as it is, and an administrator should know it."""


SEVERITY_OF_SUPPORT = {
    Support.DIFFERS: Severity.DIFFERS,
    Support.NO_EFFECT: Severity.LOST,
    Support.MISSING: Severity.LOST,
}
"""The severity of something that is in use, by its entry in the support table; what works is no finding."""


@dataclass(slots=True)
class Finding:
    """One observation about objects of one kind."""

    severity: Severity
    kind: str
    message: str
    advice: str = ""
    objects: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        shown = ", ".join(self.objects[:SHOWN_OBJECTS])
        more = len(self.objects) - SHOWN_OBJECTS
        names = f" {shown}{f' and {more} more' if more > 0 else ''}" if shown else ""
        return f"{self.kind}{names}: {self.message}{f'; {self.advice}' if self.advice else ''}"


@dataclass(slots=True)
class MigrationReport:
    """All findings, and how many objects of each kind were checked."""

    checked: Counter[str] = field(default_factory=Counter)
    _findings: dict[tuple[Severity, str, str, str], Finding] = field(default_factory=dict)

    def add(self, severity: Severity, kind: str, name: str, message: str, advice: str = "") -> None:
        """Note a finding; equal ones about several objects of a kind become one."""
        key = (severity, kind, message, advice)
        found = self._findings.setdefault(key, Finding(*key))
        if name and name not in found.objects:
            found.objects.append(name)

    def of(self, severity: Severity) -> list[Finding]:
        """The findings of one severity, in the order in which they were found."""
        return [finding for finding in self._findings.values() if finding.severity is severity]

    @property
    def lost(self) -> list[Finding]:
        """The findings that stand in the way of a takeover."""
        return self.of(Severity.LOST)

    def to_document(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return {
            "checked": dict(sorted(self.checked.items())),
            "lost": len(self.lost),
            "findings": [
                {
                    "severity": finding.severity.value,
                    "kind": finding.kind,
                    "objects": finding.objects,
                    "message": finding.message,
                    "advice": finding.advice,
                }
                for severity in Severity
                for finding in self.of(severity)
            ],
        }

    def to_lines(self) -> Iterator[str]:
        """The report as text: the numbers of objects, then the findings by severity."""
        counts = [f"{number} {kind}" for kind, number in sorted(self.checked.items())]
        yield f"Checked: {', '.join(counts) or 'no objects'}"
        for severity in Severity:
            findings = self.of(severity)
            if findings:
                yield ""
                yield f"{severity.value.upper()} ({len(findings)})"
                yield from (f"- {finding}" for finding in findings)
