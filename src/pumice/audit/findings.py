"""What an audit found: each thing that does not hold, with its cycle and decision."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pumice.audit.log_lines import Decision

MOST_KEPT = 1000
"""The most findings that are kept; the others are counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that does not hold."""

    rule: str
    cycle: int
    now: int
    line: str  # file and line
    decision: str  # "" if it is not about a single decision
    message: str


@dataclass(slots=True)
class Findings:
    """The findings of an audit so far, and where it stands."""

    cycle: int = 0
    now: int = 0
    line: str = ""
    kept: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)  # by rule

    def add(self, rule: str, decision: Decision | None, message: str) -> None:
        """Add a finding about the present cycle."""
        self.counts[rule] += 1
        if len(self.kept) < MOST_KEPT:
            text = decision_text(decision) if decision is not None else ""
            self.kept.append(Finding(rule, self.cycle, self.now, self.line, text, message))


def decision_text(decision: Decision) -> str:
    """A decision in a line."""
    match decision.does:
        case "bind":
            return f"bind {decision.task} to {decision.node}"
        case "pipeline":
            return f"pipeline {decision.task} to {decision.node}"
        case "evict":
            by = f" for {decision.preemptor}" if decision.preemptor else ""
            return f"evict {decision.task} from {decision.node}{by} ({decision.action})"
        case "enqueue":
            return f"let in {decision.job}"
    return f"{decision.does} {decision.job}"
