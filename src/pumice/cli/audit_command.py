"""``pumice audit``: whether everything that a decision log records was right."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pumice.cli.replay_command import time_text
from pumice.cli.terminal import RefusedInputError, echo, echo_values
from pumice.cli.text_table import Column, Table

if TYPE_CHECKING:
    from pumice.audit.certificate import Certificate
    from pumice.audit.findings import Finding
    from pumice.audit.shortfall import QueueShortfall

NOT_CLEAN = 1
SHOWN = 20
"""Findings that are printed."""


@click.command()
@click.argument("log", metavar="LOG", type=click.Path(exists=True, path_type=Path))
@click.option("--all", "everything", is_flag=True, help=f"Print all findings, not only the first {SHOWN}.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Output format.",
)
def audit(log: Path, everything: bool, output: str) -> int:
    """Check a decision log against the rules, without the scheduler that wrote it.

    LOG is a file written by pumice scheduler --decision-log, or a directory of such files, which are read in order.
    A log of which a line was altered, removed, inserted or moved is refused, and the line is named.

    \b
    What has to hold:
      every bind fits its node and the limits of all queues above, and gangs start whole;
      every eviction was allowed and needed, and the job for which it was made starts;
      no two jobs evict each other while nothing changes;
      recorded entitlements are those that a slow, exact computation finds;
      no queue stays below its entitlement while it could start something.

    Exit status: 0 everything holds, 1 something does not, 2 a log that cannot be used or was altered.
    """
    from pumice.audit.certificate import audit as audit_log
    from pumice.audit.log_reader import AlteredLogError, UnusableLogError

    with _progress(log) as progress:
        try:
            certificate = audit_log(log, progress)
        except AlteredLogError as error:
            raise RefusedInputError(f"the log is not as it was written: {error}") from None
        except UnusableLogError as error:
            raise RefusedInputError(str(error)) from None
    if output != "text":
        echo_values(certificate_values(certificate), output)
    else:
        for line in _lines(certificate, SHOWN if not everything else len(certificate.findings.kept)):
            echo(line)
    return 0 if certificate.clean else NOT_CLEAN


@contextmanager
def _progress(log: Path) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal."""
    from pumice.decision_log.log_files import log_files

    if not sys.stderr.isatty():
        yield lambda size: None
        return
    files = log_files(log) if log.is_dir() else [log]
    with click.progressbar(length=sum(each.stat().st_size for each in files), label=log.name, file=sys.stderr) as bar:
        yield bar.update


# ---- text ------------------------------------------------------------------------------------------------------------


def _lines(found: Certificate, shown: int) -> Iterator[str]:
    yield from _heading(found)
    yield ""
    yield from _rules(found)
    if found.shortfall:
        yield ""
        yield from _shortfall(found)
    for note in _notes(found):
        yield f"note: {note}"
    if found.findings.kept:
        yield ""
    for finding in found.findings.kept[:shown]:
        yield from _finding(finding)
    total = found.findings.counts.total()
    if total > shown:
        yield f"... and {total - shown:,} more; --all shows {len(found.findings.kept):,} of them"
    yield ""
    if found.clean:
        yield f"{click.style('CLEAN', fg='green', bold=True)} {found.path}: everything holds"
    else:
        count = f"{total:,} finding{'' if total == 1 else 's'}"
        yield f"{click.style('WRONG', fg='red', bold=True)} {found.path}: {count}"


def _heading(found: Certificate) -> Iterator[str]:
    span = f", {time_text(found.since)} to {time_text(found.until)}" if found.cycles else ""
    yield f"{_count(found.files, 'file')}, {_count(found.cycles, 'cycle')}, {_count(found.events, 'event')}{span}"
    chain = found.chain
    if chain.lines:
        yield f"{chain.lines:,} lines are as they were written; the last hash is {chain.chain}"


def _notes(found: Certificate) -> Iterator[str]:
    chain = found.chain
    if chain.began:
        yield f"the log begins after a line with the hash {chain.began}, which is not in these files"
    if chain.unchained:
        names = ", ".join(path.name for path in chain.unchained)
        yield f"{names}: written without hashes by an older version, so changed lines are not noticed there"
    if chain.torn:
        names = ", ".join(path.name for path in chain.torn)
        yield f"{names}: the last line is incomplete (a crash, or it is being written) and was left out"
    if chain.empty:
        names = ", ".join(path.name for path in chain.empty)
        yield f"{names}: empty, as a crash leaves a file that has just been begun"
    if found.ahead:
        yield f"{_count(found.ahead, 'gang')} started a task while others of the gang waited for victims to leave"
    if found.waiting:
        yield f"{_count(found.waiting, 'task')} that was given a place by evictions waits for it when the log ends"
    for reason, count in sorted(found.excused.items()):
        if count:
            yield f"{_count(count, 'task')} given a place by evictions did not start there: {reason}"
    if not found.shortfall and found.cycles:
        yield f"no entitlements are recorded under this order of queues ({', '.join(found.orders)})"
    for reason, count in sorted(found.not_recomputed.items()):
        yield f"entitlements of {_count(count, 'cycle')} were not computed again: {reason}"


def _rules(found: Certificate) -> Iterator[str]:
    from pumice.audit.certificate import RULES

    counts = _checked(found)
    table = Table([Column("RULE"), Column("CHECKED", align_right=True), Column("WRONG", align_right=True)])
    rows = [(rule, f"{counts[rule]:,}", str(found.findings.counts[rule])) for rule in RULES]
    table.widen(rows)
    yield table.heading()
    for rule, checked, wrong in rows:
        yield table.line((rule, checked, click.style(wrong, fg="red", bold=True) if wrong != "0" else wrong))


def _checked(found: Certificate) -> dict[str, int]:
    binds, evictions = found.decisions["bind"], sum(found.evictions.values())
    return {
        "bind": binds,
        "capacity of nodes": binds,
        "limits of queues": binds,
        "whole gangs": found.gangs,
        "legal evictions": evictions,
        "guarantees": evictions,
        "minimal evictions": found.weighed,
        "evictions for a start": evictions,
        "no eviction cycles": evictions,
        "entitlement": found.recomputed,
        "shortfall": len(found.shortfall),
    }


def _shortfall(found: Certificate) -> Iterator[str]:
    columns = [
        Column("QUEUE"),
        Column("ENTITLED", align_right=True),
        Column("HELD", align_right=True),
        Column("SHORT", align_right=True),
        Column("WITHOUT REASON", align_right=True),
        Column("REASONS"),
    ]
    table = Table(columns)
    rows = [_queue_row(queue) for queue in found.shortfall.values() if queue.seconds]
    table.widen(rows)
    yield table.heading()
    yield from (table.line(row) for row in rows)


def _queue_row(queue: QueueShortfall) -> tuple[str, ...]:
    from pumice.audit.shortfall import NONE

    seconds = queue.seconds
    reasons = [
        f"{reason} {amount / queue.total:.0%}"
        for reason, amount in sorted(queue.short.items(), key=lambda each: -each[1])
        if reason != NONE
    ]
    return (
        "  " * (len(queue.path) - 1) + queue.path[-1],
        f"{queue.entitled / seconds:.1%}",
        f"{queue.held / seconds:.1%}",
        f"{queue.total / seconds:.2%}",
        f"{queue.short.get(NONE, 0.0) / seconds:.2%}",
        ", ".join(reasons),
    )


def _finding(found: Finding) -> Iterator[str]:
    rule = click.style(found.rule, bold=True)
    yield f"{found.line}: cycle {found.cycle}, {time_text(found.now)}: {rule}"
    if found.decision:
        yield f"    {found.decision}"
    yield f"    {found.message}"


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


# ---- JSON ------------------------------------------------------------------------------------------------------------


def certificate_values(found: Certificate) -> dict[str, Any]:
    """The certificate as plain values; times are microseconds, shares parts of the cluster."""
    checked = _checked(found)
    return {
        "clean": found.clean,
        "log": str(found.path),
        "files": found.files,
        "cycles": found.cycles,
        "events": found.events,
        "from": found.since,
        "until": found.until,
        "chain": {
            "lines": found.chain.lines,
            "first": found.chain.began,
            "last": found.chain.chain,
            "withoutHashes": [str(path) for path in found.chain.unchained],
            "incomplete": [str(path) for path in found.chain.torn],
            "empty": [str(path) for path in found.chain.empty],
        },
        "decisions": dict(found.decisions),
        "evictions": dict(found.evictions),
        "rules": {rule: {"checked": count, "wrong": found.findings.counts[rule]} for rule, count in checked.items()},
        "starts": {"started": found.started, "waiting": found.waiting, "withdrawn": dict(found.excused)},
        "gangsAhead": found.ahead,
        "entitlements": {"computed": found.recomputed, "notComputed": dict(found.not_recomputed)},
        "queues": [_queue_values(path, queue) for path, queue in found.shortfall.items()],
        "findings": [
            {
                "rule": each.rule,
                "cycle": each.cycle,
                "time": each.now,
                "line": each.line,
                "decision": each.decision,
                "message": each.message,
            }
            for each in found.findings.kept
        ],
    }


def _queue_values(path: str, queue: QueueShortfall) -> dict[str, Any]:
    return {
        "path": path,
        "level": len(queue.path) - 1,
        "seconds": queue.seconds,
        "entitledSeconds": queue.entitled,
        "heldSeconds": queue.held,
        "shortSeconds": queue.total,
        "largestShort": queue.worst,
        "reasons": dict(queue.short),
    }
