"""``pumice at``: the cluster as it was at a time, from a decision log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pumice.cli.replay_command import VIRTUAL_UNTIL, is_named, parse_time, time_text
from pumice.cli.terminal import RefusedInputError, echo, echo_values, print_error

if TYPE_CHECKING:
    from pumice.decision_log.seek import PastMoment

NO_SUCH_JOB = 1
VIEWS = ("tree", "jobs", "nodes", "why", "decisions")
SECOND = 1_000_000


@click.command()
@click.argument("time", metavar="TIME", required=False)
@click.argument("view", metavar="[tree|jobs|nodes|why JOB|decisions]", required=False)
@click.argument("job", metavar="", required=False)
@click.option(
    "--log",
    "log",
    type=click.Path(exists=True, path_type=Path),
    help="Decision log: a file, or a directory of files. [default: that of pumice up, in its data directory]",
)
@click.option("--follow", metavar="JOB", help="Tell the life of this job, up to TIME or to the end of the log.")
@click.option(
    "--last",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="With decisions: how far to look back from TIME.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "wide", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Output format.",
)
def at(
    time: str | None, view: str | None, job: str | None, log: Path | None, follow: str | None, last: float, output: str
) -> int:
    """Show the cluster as it was at a time in the past.

    TIME is 03:00 (today), '2026-11-16 03:00', RFC 3339, or seconds. What is shown is the state after the last cycle of
    the scheduler at or before it:

    \b
      tree        the queues: what they used and were entitled to (the default)
      jobs        the jobs; -o wide says why they waited
      nodes       the nodes, and what was idle on them
      why JOB     why a job waited then, as pumice why would have said
      decisions   what was decided in the last 60 seconds before (--last)

    The scheduler's decisions are made again from the last snapshot in the log, so the plugins of its configuration must
    be installed here. JOB is a PodGroup or a Job of Volcano: [NAMESPACE/]NAME.

    \b
    Exit status: 0 shown, 1 job not found, 2 invalid usage, or a log that cannot be used.
    """
    from pumice.decision_log.replay import LogError

    log = log or _default_log()
    view = _view(time, view, job, follow)
    moment = parse_time(time, datetime.now().astimezone(), "TIME") if time else None
    try:
        if follow is not None:
            return _follow(log, follow, moment, output)
        from pumice.decision_log.seek import TooEarlyError, past_moment

        assert moment is not None
        with _progress(log) as progress:
            try:
                then = past_moment(log, moment, recent=round(last * SECOND), progress=progress)
            except TooEarlyError as error:
                if error.first is None:
                    raise
                raise LogError(f"{error}; the first one was at {time_text(error.first)}") from None
    except LogError as error:
        raise RefusedInputError(str(error)) from None
    if then.is_last and then.asked - then.now > SECOND:
        mark = click.style("note:", fg="yellow")
        echo(f"{mark} the log ends at {time_text(then.now)}; this is the last that it has", err=True)
    if view == "why":
        return _why(then, job or "", output)
    _show(then, view, output)
    return 0


def _view(time: str | None, view: str | None, job: str | None, follow: str | None) -> str:
    """Check the arguments, and return the view."""
    if follow is not None:
        if view is not None:
            raise click.UsageError(f"--follow tells the life of a job and takes no {view!r}")
        return ""
    if time is None:
        raise click.UsageError("Missing argument 'TIME': write for example 03:00 or '2026-11-16 03:00'")
    view = view or "tree"
    if view not in VIEWS:
        raise click.UsageError(f"{view!r} is not one of {', '.join(VIEWS)}")
    if (view == "why") != (job is not None):
        raise click.UsageError("'why' needs a job: pumice at TIME why JOB" if view == "why" else f"{view} takes no job")
    return view


def _default_log() -> Path:
    from pumice.cli.up.data_folder import default_data_folder

    found = default_data_folder() / "decisions"
    if not found.is_dir():
        raise click.UsageError(f"there is no decision log in {found}; name one with --log")
    return found


@contextmanager
def _progress(log: Path) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal."""
    from pumice.decision_log.log_files import log_files

    files = log_files(log) if log.is_dir() else [log]
    if not sys.stderr.isatty() or not files:
        yield lambda size: None
        return
    length = max(path.stat().st_size for path in files)  # one of them is read, at most to its end
    with click.progressbar(length=length, label="reading the log", file=sys.stderr) as bar:
        yield bar.update


# ---- views -----------------------------------------------------------------------------------------------------------


def _show(then: PastMoment, view: str, output: str) -> None:
    from pumice.cli.past.past_views import view_lines, view_values

    if output in ("json", "yaml"):
        echo_values({"time": then.now, "cycle": then.cycle, **view_values(then, view)}, output)
        return
    echo(f"{click.style(time_text(then.now), bold=True)}, after cycle {then.cycle}")
    if then.outcome.difference is not None:
        echo(
            f"{click.style('note:', fg='yellow')} this version decides differently from cycle "
            f"{then.outcome.difference.cycle} on; pumice replay shows the difference"
        )
    echo()
    for line in view_lines(then, view, wide=output == "wide"):
        echo(line)


def _why(then: PastMoment, name: str, output: str) -> int:
    import shutil

    from pumice.cli.why.report_output import report_lines, report_values
    from pumice.engine.explain import explain

    keys = [key for key in then.engine.state.jobs if is_named(key, name)]
    if len(keys) > 1:
        raise click.UsageError(f"{name} may be {', '.join(sorted(keys))}; write the namespace too")
    virtual = then.now < VIRTUAL_UNTIL
    found = explain(then.engine, keys[0], then.now) if keys else None
    if found is None:
        print_error(f"job {name} did not exist at {time_text(then.now)}; pumice at --follow {name} tells when it did")
        return NO_SUCH_JOB
    if output in ("json", "yaml"):
        echo_values(report_values(found, virtual=virtual), output)
        return 0
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    echo(f"{click.style(time_text(then.now), bold=True)}, after cycle {then.cycle}")
    echo()
    for line in report_lines(found, virtual=virtual, columns=columns):
        echo(line)
    return 0


def _follow(log: Path, job: str, until: int | None, output: str) -> int:
    from pumice.decision_log.job_story import JobStory

    story = JobStory(job, lambda key: is_named(key, job))
    with _all_progress(log) as progress:
        chapters = list(story.chapters(log, until, progress))
    if not chapters:
        print_error(f"the log names no job {job}")
        return NO_SUCH_JOB
    if output in ("json", "yaml"):
        values = [
            {"time": each.now, "cycle": each.cycle, "event": each.what, "message": each.text} for each in chapters
        ]
        echo_values(values, output)
        return 0
    width = max(len(each.what) for each in chapters)
    for each in chapters:
        colour = {"starts": "green", "is evicted": "red", "failed": "red", "waits": "yellow"}.get(each.what)
        echo(f"{time_text(each.now)}  {click.style(each.what.ljust(width), fg=colour)}  {each.text}")
    return 0


@contextmanager
def _all_progress(log: Path) -> Iterator[Callable[[int], None]]:
    from pumice.decision_log.log_files import log_files

    files = log_files(log) if log.is_dir() else [log]
    if not sys.stderr.isatty() or not files:
        yield lambda size: None
        return
    length = sum(path.stat().st_size for path in files)
    with click.progressbar(length=length, label="reading the log", file=sys.stderr) as bar:
        yield bar.update
