"""Audits a log from its first line to its last: the certificate has the figures, and everything that does not hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import yaml

from pumice.audit.bind_rules import BindRules
from pumice.audit.entitlement import EntitlementCheck
from pumice.audit.eviction_rules import EvictionRules
from pumice.audit.findings import Findings
from pumice.audit.follow_up import FollowUp
from pumice.audit.ledger import Ledger
from pumice.audit.log_lines import (
    AnyLine,
    ChangedLine,
    CycleLine,
    GoneLine,
    HappenedLine,
    HeadingLine,
    JobLine,
    MemoryLine,
    ObjectLine,
    QuietLine,
    ResourcesLine,
    TaskLine,
)
from pumice.audit.log_reader import AlteredLogError, ChainSeen, LogReader, UnusableLogError
from pumice.audit.policy import AuditedPolicy, policy_of
from pumice.audit.shortfall import QueueShortfall, Shortfall

RULES = (
    "bind",
    "capacity of nodes",
    "limits of queues",
    "whole gangs",
    "legal evictions",
    "guarantees",
    "minimal evictions",
    "evictions for a start",
    "no eviction cycles",
    "entitlement",
    "shortfall",
)
"""The rules, in the order in which they are shown."""


@dataclass(slots=True)
class Certificate:
    """The result of an audit."""

    path: Path
    chain: ChainSeen
    findings: Findings = field(default_factory=Findings)
    files: int = 0
    cycles: int = 0
    events: int = 0
    since: int = 0
    until: int = 0
    decisions: Counter[str] = field(default_factory=Counter)
    gangs: int = 0
    ahead: int = 0  # gangs of which tasks started while others waited for victims to leave
    evictions: Counter[str] = field(default_factory=Counter)  # by action
    weighed: int = 0
    started: int = 0
    waiting: int = 0
    excused: Counter[str] = field(default_factory=Counter)
    recomputed: int = 0  # entitlements
    not_recomputed: Counter[str] = field(default_factory=Counter)  # why
    orders: list[str] = field(default_factory=list)
    shortfall: dict[str, QueueShortfall] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        """Whether everything holds."""
        return not self.findings.counts


def audit(path: Path, progress: Callable[[int], None] = lambda size: None) -> Certificate:
    """Audit a file or a folder of files; raises UnusableLogError, and AlteredLogError if lines were changed."""
    reader = LogReader(path, progress)
    auditor = _Auditor(Certificate(path, reader.seen))
    for line in reader:
        auditor.findings.line = reader.at
        try:
            auditor.take(line)
        except msgspec.MsgspecError as error:
            raise AlteredLogError(f"{reader.at}: {error}") from None
        except (yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
            if isinstance(line, HeadingLine):
                raise UnusableLogError(f"{reader.at}: cannot read the recorded configuration: {error}") from None
            raise
    return auditor.finish()


class _Auditor:
    def __init__(self, certificate: Certificate) -> None:
        self.certificate = certificate
        self.findings = certificate.findings
        self._follow_up = FollowUp(self.findings)
        self._shortfall = Shortfall(self.findings)
        self._entitlement = EntitlementCheck(self.findings)
        self._ledger = Ledger(())
        self._policy: AuditedPolicy | None = None
        self._binds: BindRules | None = None
        self._evictions: EvictionRules | None = None

    def take(self, line: AnyLine) -> None:
        match line:
            case CycleLine():
                self._cycle(line)
            case QuietLine():
                self._quiet(line)
            case ChangedLine() | GoneLine() | HappenedLine():
                self._ledger.apply(line)
                self.certificate.events += 1
            case MemoryLine():
                self._ledger.remember(line)
            case ObjectLine() | JobLine() | TaskLine():
                self._ledger.begin(line)
            case ResourcesLine():
                self._ledger.names.extend(line.names)
                self._ledger.accounts.outdated = True
            case HeadingLine():
                self._begin(line)

    def _begin(self, heading: HeadingLine) -> None:
        """A new file: the cluster is described anew."""
        self._close_file()
        world = self._ledger.world
        continued = self.findings.cycle == heading.cycles and heading.cycles > 0
        self._ledger = Ledger(heading.resources)
        self._ledger.awaits = heading.awaits
        if continued:
            self._ledger.world = world
        else:
            self._follow_up.restarted()
        self._policy = policy_of(heading)
        if self._policy.order not in self.certificate.orders:
            self.certificate.orders.append(self._policy.order)
        self._binds = BindRules(self._ledger, self._policy, self.findings)
        self._evictions = EvictionRules(self._ledger, self._policy, self.findings)
        self._shortfall.begin(self._ledger, self._policy)
        self._entitlement.begin(self._ledger, self._policy)
        self.certificate.files += 1

    def _cycle(self, line: CycleLine) -> None:
        assert self._binds is not None and self._evictions is not None
        self._at(line.cycle, line.now)
        entitled = line.targets.entitled if line.targets is not None else None
        self._shortfall.pass_time(line.now)
        for decision in line.decisions:
            self.certificate.decisions[decision.does] += 1
            self._entitlement.halted |= decision.does == "queuecondition" and bool(decision.message)
        if entitled is not None:
            self._entitlement.solved(entitled)
            self._shortfall.solved(entitled)
        self._follow_up.before(self._ledger, line.decisions)
        takings = self._evictions.before(line.decisions)
        for place, decision in enumerate(line.decisions):
            self._binds.before(decision)
            self._ledger.decide(decision, line.now)
            if place in takings:
                self._evictions.took(takings[place])
        self._evictions.after(line.decisions)
        self._binds.after(line.decisions)
        self._follow_up.after(self._ledger, list(takings.values()), line.decisions)
        self._shortfall.look(line.now)

    def _quiet(self, line: QuietLine) -> None:
        now = line.now
        for number, gap in enumerate((0, *line.gaps), line.cycle):
            now += gap
            self._at(number, now)
            self._shortfall.pass_time(now)
            self._follow_up.before(self._ledger, ())
            self._shortfall.look(now)

    def _at(self, cycle: int, now: int) -> None:
        found = self.certificate
        found.cycles += 1
        found.since = found.since or now
        found.until = self.findings.now = now
        self.findings.cycle = cycle
        self._ledger.pass_time(now)

    def _close_file(self) -> None:
        if self._binds is not None and self._evictions is not None:
            self.certificate.gangs += self._binds.gangs
            self.certificate.ahead += self._binds.ahead
            self.certificate.evictions.update(self._evictions.checked)
            self.certificate.weighed += self._evictions.weighed

    def finish(self) -> Certificate:
        self._close_file()
        found, follow_up = self.certificate, self._follow_up
        found.started, found.waiting, found.excused = follow_up.started, follow_up.waiting, follow_up.excused
        found.recomputed, found.not_recomputed = self._entitlement.recomputed, self._entitlement.skipped
        found.shortfall = self._shortfall.queues
        return found
