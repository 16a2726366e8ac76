"""The text of a ``WaitReport``: the verdict, followed by sections with the figures behind it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from typing import Any

import click

from kubebase.timestamps import stamp
from pumice.cli.scenario.run_tables import ColumnCells, column_table
from pumice.engine.explain.wait_report import Competition, Competitor, NodeFit, TreeLevel, WaitReport
from pumice.engine.explain.wording import SECOND, count, listed, said, seconds

TIME_FIELDS = frozenset(
    {
        "now",
        "created",
        "running_since",
        "last_start",
        "starts_at",
        "holds_at",
        "hold_ends",
        "patience_at",
        "takes_at",
    }
)

KEY = re.compile(r"[^\s/()]+/[a-z0-9.-]*[a-z0-9]")
"""Namespace and name of an object in a text."""
NO_NAMES: Mapping[str, str] = {}
MIN_COLUMNS = 40
"""Lines are not wrapped to less than this."""
NAMED_CONTAINERS = 5
"""The maximum number of blocked containers that the text names."""


def report_lines(
    answer: WaitReport, *, virtual: bool = False, columns: int | None = None, names: Mapping[str, str] = NO_NAMES
) -> Iterator[str]:
    """All of it. Virtual: times are those of a scenario, which begins at 0. With ``columns``, lines are that long.

    ``names`` are those of the jobs whose controllers made PodGroups, by the keys of the PodGroups.
    """
    yield from (click.style(line, bold=True) for line in _wrapped(_with_names(answer.verdict, names), columns))
    for heading, lines in (
        ("job", _job_section(answer, virtual, named=answer.job in names)),
        ("containers", _container_section(answer)),
        ("turn", _order_section(answer, columns, names)),
        ("limits", [limit.message for limit in answer.limits]),
        ("nodes", _node_section(answer)),
        ("time", _time_section(answer)),
        ("noted", [note for note in answer.notes if note not in answer.verdict]),
        ("to start", [f"- {need}" for need in answer.needs]),
    ):
        found = list(lines) if heading == "job" else [_with_names(line, names) for line in lines]
        if found:
            yield ""
            yield click.style(heading.upper(), fg="cyan")
            yield from (part for line in found for part in _wrapped(f"  {line}", columns))


def _wrapped(line: str, columns: int | None) -> list[str]:
    """A line in parts that fit a terminal, the later ones indented; styles have no width, so a part may be shorter."""
    if columns is None or len(click.unstyle(line)) <= columns:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.wrap(
        line, max(MIN_COLUMNS, columns), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


# ---- sections ----------------------------------------------------------------------------------------------------


def _job_section(answer: WaitReport, virtual: bool, *, named: bool) -> Iterator[str]:
    if not answer.phase:
        return
    if answer.called or named:
        yield f"PodGroup {answer.job}"
    user = f", user {answer.user}" if answer.user != answer.job.partition("/")[0] else ""
    yield f"queue {answer.path or answer.queue}{user}, {answer.phase} for {seconds(answer.now - answer.created)}"
    counts = [
        f"{number} {what}"
        for number, what in (
            (answer.running, "running"),
            (answer.starting, "starting"),
            (answer.pending, "waiting"),
            (answer.succeeded, "succeeded"),
        )
        if number or what in ("running", "waiting")
    ]
    least = f"; at least {answer.minimum} start together" if answer.minimum > 1 else ""
    yield f"tasks: {', '.join(counts)}{least}"
    if answer.running:
        since = _time_text(answer.running_since, virtual)
        yield f"holds {said(answer.holds)}, the first since {since} ({seconds(answer.now - answer.running_since)})"
    if answer.target is not None and answer.running + answer.pending:
        tasks = "task" if answer.target == 1 else "tasks"
        yield f"entitled to {answer.target:.4g} {tasks}; rounded to whole tasks: {said(answer.whole)}"
    if answer.unit_tasks:
        owed = {True: ", which it is owed", False: ", which it is not owed", None: ""}[
            answer.owed if answer.target is not None else None
        ]
        ask = said(answer.unit) if answer.unit else "nothing but a place"
        yield f"would start {count(answer.unit_tasks, 'task')} next ({ask}){owed}"


def _container_section(answer: WaitReport) -> Iterator[str]:
    yield from answer.containers[:NAMED_CONTAINERS]
    if len(answer.containers) > NAMED_CONTAINERS:
        yield f"and {len(answer.containers) - NAMED_CONTAINERS} more"


def _order_section(answer: WaitReport, columns: int | None, names: Mapping[str, str]) -> Iterator[str]:
    if answer.contest is None:
        return
    contest = _contest_with_names(answer.contest, names)
    rungs = contest.rungs
    wholes = any(rung.ours.whole for rung in rungs)
    table = column_table(
        [
            ColumnCells("LEVEL", ["  " * depth + _short(rung.ours.name) for depth, rung in enumerate(rungs)]),
            ColumnCells("USED", [said(rung.ours.used) for rung in rungs]),
            ColumnCells("ENTITLED", [said(rung.ours.entitled) if rung.ours.entitled else "" for rung in rungs]),
            ColumnCells("WHOLE", [said(rung.ours.whole) if wholes else "" for rung in rungs]),
            ColumnCells(contest.measure.upper(), [_key(rung.ours) for rung in rungs], align_right=True),
            ColumnCells("AT MOST", [said(rung.ours.limit) if rung.ours.limit else "" for rung in rungs]),
            ColumnCells("", [_place_text(rung, contest) for rung in rungs]),
        ]
    )
    lines = list(table)
    too_wide = columns is not None and max(len(click.unstyle(line)) for line in lines) > columns - 2
    yield from _stacked_levels(contest) if too_wide else lines
    who = answer.contest.first_job
    if who is not None and who != answer.job:
        yield f"{who} would be served first{' if there were room' if contest.supposing else ''}"
    if contest.measure == "want":
        part = "their own part"
        if contest.lending:
            part = "their part of the cluster (all jobs have their own part, so the rest is lent)"
        yield click.style(f"want: how much of {part} is missing; the largest is served first", dim=True)
    else:
        yield click.style("the smallest share is served first", dim=True)


def _contest_with_names(contest: Competition, names: Mapping[str, str]) -> Competition:
    """The serving order with jobs in place of their PodGroups, so that the columns are as wide as what they show."""

    def named(side: Competitor) -> Competitor:
        return replace(side, name=names.get(side.name, side.name))

    rungs = [
        replace(rung, ours=named(rung.ours), first=named(rung.first) if rung.first is not None else None)
        for rung in contest.rungs
    ]
    return replace(contest, rungs=rungs)


def _with_names(line: str, names: Mapping[str, str]) -> str:
    """A line with jobs in place of their PodGroups."""
    return KEY.sub(lambda found: names.get(found[0], found[0]), line) if names else line


def _stacked_levels(contest: Competition) -> Iterator[str]:
    """The levels one below the other, for a terminal that is narrower than their table."""
    for depth, rung in enumerate(contest.rungs):
        ours = rung.ours
        place = _place_text(rung, contest)
        yield "  " * depth + click.style(_short(ours.name), bold=True) + (f": {place}" if place else "")
        figures = [f"used {said(ours.used)}"]
        for name, amounts in (("entitled", ours.entitled), ("whole", ours.whole), ("at most", ours.limit)):
            figures += [f"{name} {said(amounts)}"] if amounts else []
        yield "  " * depth + f"  {'; '.join(figures)}; {contest.measure} {_key(ours)}"


def _place_text(rung: TreeLevel, contest: Competition) -> str:
    first = rung.first
    if first is None:
        return "first" if rung.rivals > 1 else "no competitor" if rung.rivals else ""
    if rung.place is None:
        mine = "nothing below it is owed" if contest.measure == "want" and not contest.lending else "not in the running"
        return f"{mine}; {_competitor_text(first, contest)} is served first"
    by = f" by {rung.decided_by}" if rung.decided_by not in ("", contest.measure) else ""
    return f"place {rung.place} of {rung.rivals}, behind {_competitor_text(first, contest)}{by}"


def _competitor_text(side: Competitor, contest: Competition) -> str:
    of = f" of {said(side.entitled)}" if side.entitled else ""
    return f"{_short(side.name)} ({said(side.used)}{of}, {contest.measure} {_key(side)})"


def _key(side: Competitor) -> str:
    return "-" if side.key is None else f"{side.key:.3f}"


def _short(name: str) -> str:
    return name.rpartition("/")[2] if name.startswith("root/") else name


def _node_section(answer: WaitReport) -> Iterator[str]:
    empty = answer.cause == "never"
    for found in answer.places:
        room = "would do" if empty else "have room"
        task = "one of its tasks" if len(answer.places) > 1 or found.tasks > 1 else "its task"
        ask = said(found.asks) if found.asks else "nothing but a place"
        if not empty and found.fitting == 1:
            room = "has room"
        even = ", if they were empty" if empty else ""
        yield f"{found.fitting} of {count(found.nodes, 'node')} {room} for {task} ({ask}){even}"
        yield from _unfit_nodes(found)
    if not empty and answer.unit_tasks > 1:
        yield f"{answer.fitting_now} of the {answer.unit_tasks} tasks would find a place together"


def _unfit_nodes(found: NodeFit) -> Iterator[str]:
    width = len(str(max((out.count for out in found.out), default=0)))
    for out in found.out:
        lacks = "; ".join(
            f"{_needs(lack.resource, len(out.lacks))}need {lack.needs}, most free {lack.most}" for lack in out.lacks
        )
        numbers = f" ({lacks})" if lacks else ""
        noun = "node: " if out.count == 1 else "nodes:"
        yield f"  {out.count:>{width}} {noun} {out.reason}{numbers}" + click.style(
            f"  {_which(out.nodes, out.count)}", dim=True
        )


def _needs(resource: str, number: int) -> str:
    return f"{resource}: " if number > 1 else ""


def _which(names: list[str], number: int) -> str:
    return ", ".join(names) + (", ..." if number > len(names) else "")


def _time_section(answer: WaitReport) -> Iterator[str]:
    outlook, now = answer.outlook, answer.now
    if answer.cause in ("running", "finished", "starting", "next", "never"):
        return
    if outlook.takes_at is not None and outlook.may_not_take:
        yield f"takes nothing back from other queues: {outlook.may_not_take}"
    elif outlook.takes_at is not None:
        yield f"takes back what other queues hold beyond their part {_since_or_in(outlook.takes_at, now)}"
        if outlook.takes_at <= now and outlook.starts_at is None:
            yield "no running task could make room for it now"
    if outlook.patience_at is not None and outlook.holds_at is None:
        yield f"capacity is reserved for it {_since_or_in(outlook.patience_at, now)}, unless another job comes first"
    if outlook.holds_at is not None and outlook.hold_ends is not None and outlook.holds_at <= now:
        left = seconds(outlook.hold_ends - now)
        yield f"capacity is reserved for it on {listed(outlook.holds_on)}, for at least {left} more"
    others = [job for job in outlook.kept_for if job != answer.job]
    if others:
        yield f"capacity is reserved for {listed(others)}"
    starting = [job for job in outlook.first if job != answer.job]
    if starting:
        yield (
            f"{listed(starting)} start in the next cycle"
            if len(starting) > 1
            else f"{starting[0]} starts in the next cycle"
        )


def _since_or_in(time: int, now: int) -> str:
    return f"from now on (its patience ended {seconds(now - time)} ago)" if time <= now else f"in {seconds(time - now)}"


def _time_text(time: int, virtual: bool) -> str:
    if virtual:
        return f"second {time / SECOND:g}"
    return datetime.fromtimestamp(time // SECOND, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


# ---- for programs ------------------------------------------------------------------------------------------------


def report_values(answer: WaitReport, *, virtual: bool = False) -> dict[str, Any]:
    """The answer as plain values: names in camel case; times as RFC 3339, those of a scenario in seconds."""
    values = _values(answer, virtual)
    assert isinstance(values, dict)
    return values


def _values(value: Any, virtual: bool) -> Any:
    if is_dataclass(value):
        return {_camel(f.name): _field(f.name, getattr(value, f.name), virtual) for f in fields(value)}
    if isinstance(value, list):
        return [_values(item, virtual) for item in value]
    return value


def _field(name: str, value: Any, virtual: bool) -> Any:
    if name not in TIME_FIELDS:
        return _values(value, virtual)
    if not value:
        return None
    if virtual:
        return value / SECOND
    return stamp(value / SECOND)


def _camel(name: str) -> str:
    return re.sub(r"_(.)", lambda match: match[1].upper(), name)
