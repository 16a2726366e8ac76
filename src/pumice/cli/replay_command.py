"""``pumice replay``: decide again what a recorded scheduler has decided, and compare."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pumice.cli.terminal import RefusedInputError, echo, echo_values

if TYPE_CHECKING:
    from pumice.decision_log.replay import Difference, Outcome, Replayed

DIFFERENCE_FOUND = 1
MICROSECONDS = 1_000_000
VIRTUAL_UNTIL = 10**9 * MICROSECONDS
"""Times before this are seconds of a virtual clock."""
_UID_SUFFIX = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")  # of the PodGroup of a Job


@click.command()
@click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--until", type=click.IntRange(min=1), metavar="CYCLE", help="Stop after this cycle.")
@click.option(
    "--at",
    "moment",
    metavar="TIME",
    help="Stop before the first cycle after this time: 03:00 (today), '2026-11-16 03:00', RFC 3339, or seconds.",
)
@click.option("--job", metavar="[NAMESPACE/]NAME", help="Print every event and decision about this job, with its time.")
@click.option("--tree", is_flag=True, help="With --at and one LOG: print the tree of queues at that time, as JSON.")
@click.option("--print", "shown", is_flag=True, help="Print the events and decisions of the last replayed cycle.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Output format.",
)
def replay(
    logs: tuple[Path, ...],
    until: int | None,
    moment: str | None,
    job: str | None,
    tree: bool,
    shown: bool,
    output: str,
) -> int:
    """Replay decision logs and compare decision by decision.

    LOG is a file written by pumice scheduler --decision-log, or a directory of such files. Each file is replayed on its
    own, up to its first difference. A file may come from another machine; the plugins in its configuration must be
    installed here. With --at, of a directory only the file with that time is replayed; to see the cluster at a time,
    or the life of one job, use pumice at.

    Exit status: 0 same decisions, 1 a difference, 2 a file that cannot be replayed.
    """
    from pumice.decision_log.replay import LogError
    from pumice.decision_log.replay import replay as replay_file

    outcomes: list[Outcome] = []
    last: list[Replayed] = []
    at = parse_time(moment, datetime.now().astimezone()) if moment else None
    if tree:
        return _print_tree(logs, at)
    try:
        files = list(_log_files(logs, until, at))
    except LogError as error:
        raise RefusedInputError(str(error)) from None
    if not files:
        before = f" that begins before {moment}" if moment else ""
        raise RefusedInputError(f"no decision log{before} found in {', '.join(map(str, logs))}")
    about_job: list[dict[str, Any]] = []

    def watch(cycle: Replayed) -> None:
        last[:] = [cycle]
        if job is not None:
            about_job.extend(job_records(cycle, job))

    for path in files:
        with _progress(path) as progress:
            try:
                outcome = replay_file(path, until=until, at=at, watch=watch, progress=progress)
            except LogError as error:
                raise RefusedInputError(str(error)) from None
        outcomes.append(outcome)
        if output == "text":
            for line in _outcome_lines(outcome):
                echo(line)
    differ = any(outcome.difference for outcome in outcomes)
    if output != "text":
        values: dict[str, Any] = {"same": not differ, "files": [_outcome_values(outcome) for outcome in outcomes]}
        if shown and last:
            values["cycle"] = cycle_values(last[0])
        if job is not None:
            values["job"] = about_job
        echo_values(values, output)
        return DIFFERENCE_FOUND if differ else 0
    for record in about_job:
        about = {name: value for name, value in record.items() if name not in ("cycle", "now")}
        echo(f"{time_text(record['now'])}  cycle {record['cycle']}  {_json_text(about)}")
    if job is not None and not about_job:
        echo(f"no event or decision about job {job} in the replayed cycles")
    if shown and last:
        for line in _cycle_lines(last[0]):
            echo(line)
    return DIFFERENCE_FOUND if differ else 0


def _print_tree(logs: tuple[Path, ...], at: int | None) -> int:
    from pumice.decision_log.replay import LogError
    from pumice.ui.then_document import then_document

    if at is None or len(logs) != 1:
        raise click.UsageError("--tree needs --at and one decision log, or one directory of them")
    try:
        echo_values(then_document(logs[0], at), "json")
    except LogError as error:
        raise RefusedInputError(str(error)) from None
    return 0


def _log_files(logs: tuple[Path, ...], until: int | None, at: int | None) -> Iterator[Path]:
    """The log files; of a directory, those that start at or before the last requested cycle, or the one at a time."""
    from pumice.decision_log.log_files import begun_files
    from pumice.decision_log.replay import first_cycle
    from pumice.decision_log.seek import file_at

    for path in logs:
        if not path.is_dir():
            yield path
        elif at is not None:
            yield file_at(path, at)
        else:
            yield from (file for file in begun_files(path) if until is None or first_cycle(file) <= until)


def parse_time(text: str, now: datetime, named: str = "--at") -> int:
    """A time in microseconds: seconds since 1970 (or since a scenario began), a time of today, or a date and time."""
    try:
        return round(float(text) * MICROSECONDS)
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text if "-" in text else f"{now.date()} {text}")
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a time; write for example 03:00, '2026-11-16 03:00' or 2026-11-16T03:00:00Z",
            param_hint=named,
        ) from None
    aware = found if found.tzinfo else found.replace(tzinfo=now.tzinfo)
    return round(aware.timestamp() * MICROSECONDS)


def time_text(moment: int) -> str:
    """A time of the log: local time, or the seconds of a virtual clock, which begins at 0."""
    if moment < VIRTUAL_UNTIL:
        return f"{moment / MICROSECONDS:.6f} s"
    return datetime.fromtimestamp(moment / MICROSECONDS).astimezone().isoformat(" ", "milliseconds")


def job_records(cycle: Replayed, job: str) -> Iterator[dict[str, Any]]:
    """The events and decisions of a cycle about a job, as the log has them."""
    from pumice.engine.events import Changed
    from pumice.model.specs import JobSpec, TaskSpec

    values = cycle_values(cycle)
    for event, record in zip(cycle.events, values["events"], strict=True):
        subject = event.object if isinstance(event, Changed) else None
        key = subject.key if isinstance(subject, JobSpec) else subject.job if isinstance(subject, TaskSpec) else None
        if key is not None and is_named(key, job):
            yield {"cycle": cycle.number, "now": cycle.now, **record}
    for decision, record in zip(cycle.decisions, values["decisions"], strict=True):
        keys = (getattr(decision, "job", ""), getattr(decision, "preemptor", ""))
        if any(is_named(key, job) for key in keys if key):
            yield {"cycle": cycle.number, "now": cycle.now, **record}


def is_named(key: str, job: str) -> bool:
    """Whether a user means this PodGroup: by its name, or by that of its Job, with or without the namespace."""
    return job in {one[start:] for one in (key, _UID_SUFFIX.sub("", key)) for start in (0, key.find("/") + 1)}


@contextmanager
def _progress(path: Path) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal."""
    if not sys.stderr.isatty():
        yield lambda size: None
        return
    with click.progressbar(length=path.stat().st_size, label=path.name, file=sys.stderr) as bar:
        yield bar.update


def _outcome_lines(outcome: Outcome) -> Iterator[str]:
    from pumice import __version__

    found = outcome.difference
    word = click.style("differs", fg="red", bold=True) if found else click.style("same", fg="green", bold=True)
    counts = f"{_count_text(outcome.cycles, 'cycle')}, {_count_text(outcome.decisions, 'decision')}"
    yield f"{outcome.path.name}: {word}{' after' if found else ','} {counts}"
    if outcome.heading.pumice != __version__:
        yield f"  recorded by Pumice {outcome.heading.pumice}, replayed by {__version__}"
    if outcome.torn:
        yield "  its last line is incomplete and was skipped"
    if found is not None:
        yield f"  cycle {found.cycle} (line {found.line}), {_difference_subject(found)}"
        yield f"    recorded: {_json_text(found.expected)}"
        yield f"    replayed: {_json_text(found.found)}"


def _difference_subject(found: Difference) -> str:
    if found.what == "decision":
        return f"decision {found.where}:"
    return f"what {found.where} {'are' if found.where == 'jobs' else 'is'} entitled to:"


def _json_text(value: Any) -> str:
    import json

    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)


def _outcome_values(outcome: Outcome) -> dict[str, Any]:
    found = outcome.difference
    values: dict[str, Any] = {
        "file": str(outcome.path),
        "pumice": outcome.heading.pumice,
        "cycles": outcome.cycles,
        "events": outcome.events,
        "decisions": outcome.decisions,
        "torn": outcome.torn,
    }
    if found is not None:
        values["difference"] = {
            "cycle": found.cycle,
            "line": found.line,
            "in": found.what,
            "at": found.where,
            "recorded": found.expected,
            "replayed": found.found,
        }
    return values


def cycle_values(cycle: Replayed) -> dict[str, Any]:
    """A cycle as the log has it."""
    import msgspec

    from pumice.decision_log.records import decisions_text, event_record

    targets = cycle.targets
    return {
        "cycle": cycle.number,
        "now": cycle.now,
        "events": [msgspec.json.decode(msgspec.json.encode(event_record(event))) for event in cycle.events],
        "entitled": targets.entitled if targets is not None else {},
        "decisions": msgspec.json.decode(decisions_text(cycle.decisions)),
    }


def _cycle_lines(cycle: Replayed) -> Iterator[str]:
    values = cycle_values(cycle)
    yield ""
    yield click.style(f"cycle {cycle.number}", bold=True) + f" at {time_text(cycle.now)}"
    for title, items in (
        ("told", values["events"]),
        ("entitled", [{queue: amounts} for queue, amounts in values["entitled"].items()]),
        ("decided", values["decisions"]),
    ):
        yield f"  {title}:" if items else f"  {title}: nothing"
        yield from (f"    {_json_text(item)}" for item in items)


def _count_text(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
