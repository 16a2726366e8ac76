"""The output of ``pumice plan`` for people: text for a terminal, and Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from pumice.cli.simulate.simulate_table import duration, table_lines
from pumice.cli.text_table import Column, Table

Values = dict[str, Any]
SHOWN_TASKS = 8
"""So many names of tasks are shown for a job; -o json has all of them."""
_HEADINGS = ("QUEUE", "WEIGHT", "ENTITLED", "ENTITLED TO", "USED", "USED THEN", "OWED")
ARROW = "->"


def text_lines(values: Values) -> Iterator[str]:
    """The plan for a terminal."""
    yield f"Plan for {values['basis']}"
    for title, lines in _sections(values):
        yield ""
        yield click.style(title, bold=True)
        yield from (f"  {line}" for line in lines)
        if title == "Objects":
            yield ""
            yield from _tree_table(values["queues"])
    yield ""
    yield from _wrapped_notes(values)
    if "replay" in values:
        yield from _replay_lines(values["replay"])
        yield ""
    yield summary(values)


def markdown_lines(values: Values) -> Iterator[str]:
    """The plan as Markdown."""
    yield f"### {summary(values)}"
    yield ""
    yield f"Plan for {_escaped(values['basis'])}, if nothing else happens."
    yield ""
    yield "| " + " | ".join(heading.capitalize() for heading in _HEADINGS) + " |"
    yield "|---|---:|---:|---|---:|---:|---|"
    for queue in values["queues"]:
        cells = _queue_cells(queue)
        name = f"{'&nbsp;' * 4 * queue['depth']}{_escaped(queue['path'].rpartition('/')[2])}"
        bold = "**" if _moves(queue) else ""
        yield "| " + " | ".join([f"{bold}{name}{bold}", *map(_escaped, cells[1:])]) + " |"
    for title, lines in _sections(values):
        yield ""
        yield f"**{title}**"
        yield ""
        yield from (f"- {_escaped(line)}" for line in lines)
    notes = list(_wrapped_notes(values))
    if notes:
        yield ""
        yield from (f"> {_escaped(note)}" for note in notes)
    if "replay" in values:
        lines = list(_replay_lines(values["replay"]))
        yield ""
        yield f"**{lines[0]}**"
        yield ""
        yield "```"
        yield from map(click.unstyle, lines[1:])
        yield "```"


def _replay_lines(replay: Values) -> Iterator[str]:
    """The figures of the replayed part, without and with the change."""
    yield f"The last {duration(replay['options']['replaySeconds'])} of the log once more"
    yield from table_lines(replay)


def summary(values: Values) -> str:
    """One line: refused, no effect, or the numbers."""
    if values["refused"]:
        count = len({(one["object"], one["file"]) for one in values["refused"]})
        return f"Refused: {_count(count, 'object')}"
    if not values["changes"]:
        return "No changes"
    moved = sum(_moves(one) for one in values["queues"] if one["depth"])
    parts = [f"the entitlement of {_count(moved, 'queue')} changes" if moved else "no entitlement changes"]
    evicted, started = values["evicted"], values["started"]
    parts.append(f"{_count(len(evicted), 'task')} evicted" if evicted else "no task is evicted")
    tasks = sum(one["tasks"] for one in started)
    parts.append(
        f"{_count(tasks, 'task')} of {_count(len(started), 'waiting job')} started" if started else "no job starts"
    )
    return f"Changes: {', '.join(parts)}"


# ---- sections ------------------------------------------------------------------------------------------------------


def _sections(values: Values) -> Iterator[tuple[str, list[str]]]:
    yield "Objects", [_object_line(one) for one in values["objects"]] or ["none is let in"]
    if values["refused"]:
        yield "Refused by admission", [_refusal(one) for one in values["refused"]]
    sections = (
        ("Would lose tasks", _evictions(values["evicted"], values["jobs"])),
        ("Would start", [_start(one) for one in values["started"]]),
        ("Would lose tasks without the change, and no longer does", _evictions(values["noLongerEvicted"], {})),
        ("Would run without the change, and no longer does", [_stop(one) for one in values["noLongerRunning"]]),
    )
    yield from ((title, lines) for title, lines in sections if lines)


def _object_line(one: Values) -> str:
    fields = [f"{field['field']} {_shown(field['before'])} {ARROW} {_shown(field['after'])}" for field in one["fields"]]
    return f"{one['object']} {one['action']}{': ' if fields else ''}{'; '.join(fields)}"


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, dict):
        return ", ".join(f"{name} {amount}" for name, amount in value.items())
    return str(value)


def _refusal(one: Values) -> str:
    return ": ".join(part for part in (one["file"], one["object"], one["field"], one["message"]) if part)


def _evictions(evictions: Sequence[Values], jobs: Values) -> list[str]:
    """One line for each victim, taker and time, and how many tasks the job runs in the end."""
    groups: dict[tuple[float, str, str, str, str], list[str]] = {}
    for one in evictions:
        group = one["afterSeconds"], one["job"], one["queue"], one["for"], one["action"]
        groups.setdefault(group, []).append(one["task"])
    lines = []
    for (after, job, queue, taker, action), tasks in sorted(groups.items()):
        for_whom = f" for {taker}" if taker else _WITHOUT_TAKER.get(action, "")
        rest = f", then runs {jobs[job]['running']['after']}" if job in jobs else ""
        lost = f"loses {_count(len(tasks), 'task')}{for_whom}{rest}"
        lines.append(f"{_when(after)}: {job} in {queue} {lost}: {_names(tasks)}")
    return lines


_WITHOUT_TAKER = {
    "delete-node": " with its node",
    "repair-gangs": " because its gang cannot be completed",
    "relieve-nodes": " because its node is overcommitted",
}


def _start(one: Values) -> str:
    when = _when(one["afterSeconds"]) + (", when the evicted tasks have ended" if one["afterEvictions"] else "")
    counted = f"starts {_count(one['tasks'], 'task')}, then runs {one['running']} of {one['wanted']}"
    return f"{when}: {one['job']} in {one['queue']} {counted}"


def _stop(one: Values) -> str:
    return f"{one['job']} in {one['queue']}: {_count(one['tasks'], 'task')} fewer"


def _names(tasks: Sequence[str]) -> str:
    names = sorted((task.rpartition("/")[2] for task in tasks), key=_by_number)
    more = f" and {len(names) - SHOWN_TASKS} more" if len(names) > SHOWN_TASKS else ""
    return ", ".join(names[:SHOWN_TASKS]) + more


def _by_number(name: str) -> tuple[str, int]:
    """The order of names that end in a number: worker-9 before worker-10."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or 0)


def _when(seconds: float) -> str:
    return f"after {duration(seconds)}" if seconds else "at once"


def _wrapped_notes(values: Values) -> Iterator[str]:
    later = any(one["afterSeconds"] for one in (*values["evicted"], *values["started"]))
    patience, least = values["patienceSeconds"], values["minRuntimeSeconds"]
    if later and patience:
        yield f"A job waits {duration(patience)} before it takes from others (reclaim.patience)."
    if later and least:
        yield f"A task keeps its node for {duration(least)} after its start (reclaim.minRuntime)."
    yield from (f"note: {note}" for note in values["notes"])


# ---- the tree ------------------------------------------------------------------------------------------------------


def _tree_table(queues: Sequence[Values]) -> Iterator[str]:
    rows = []
    for queue in queues:
        cells = _queue_cells(queue)
        rows.append([click.style(cell, fg="yellow") if ARROW in cell else cell for cell in cells])
    table = Table(
        [Column(heading, align_right=heading not in ("QUEUE", "ENTITLED TO", "OWED")) for heading in _HEADINGS]
    )
    table.widen(rows)
    yield table.heading()
    yield from map(table.line, rows)


def _queue_cells(queue: Values) -> list[str]:
    name = queue["path"].rpartition("/")[2]
    owed = queue["owed"]["after"] or {}
    return [
        name if not queue["depth"] else f"{'|  ' * (queue['depth'] - 1)}|--{name}",
        _change(queue["weight"], lambda weight: f"{weight:g}"),
        _change(queue["entitledShare"], _percent),
        _amounts(queue["entitled"]),
        _percent(queue["usedShare"]),
        _percent(queue["usedShareAtRest"]["after"] or 0.0),
        ", ".join(f"{resource} {amount}" for resource, amount in owed.items()),
    ]


def _moves(queue: Values) -> bool:
    return (queue["entitled"]["before"] or {}) != (queue["entitled"]["after"] or {})


def _amounts(pair: Values) -> str:
    """What a queue is entitled to, resource by resource."""
    before, after = pair["before"] or {}, pair["after"] or {}
    return ", ".join(
        f"{name} {_change({'before': before.get(name, '0'), 'after': after.get(name, '0')}, str)}"
        for name in {**before, **after}
    )


def _change(pair: Values, shown: Any) -> str:
    before, after = pair["before"], pair["after"]
    texts = ["-" if value is None else shown(value) for value in (before, after)]
    return texts[0] if texts[0] == texts[1] else f"{texts[0]} {ARROW} {texts[1]}"


def _percent(part: float) -> str:
    return f"{100 * part:.1f}%"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
