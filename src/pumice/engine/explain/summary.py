"""The summary: one sentence with the cause, and what would have to happen, from all findings."""

from __future__ import annotations

from pumice.engine.explain.wait_report import Competition, TreeLevel, WaitReport
from pumice.engine.explain.wording import count, listed, said, seconds


def summarize(answer: WaitReport) -> None:
    """Write the summary and complete what would have to happen."""
    answer.verdict = f"{answer.job} {_verdict(answer)}"
    _say_time(answer)
    if answer.cause in ("room", "limit", "turn", "line") and answer.outlook.starts_at is None:
        _say_needs(answer)


def _verdict(answer: WaitReport) -> str:
    reason = answer.notes[0] if answer.notes else ""
    match answer.cause:
        case "running":
            every = "its task has" if answer.running == 1 else f"all its {answer.running} tasks have"
            return f"is not waiting: {every} a node"
        case "finished":
            return "is not waiting: it is finished"
        case "starting":
            number = answer.starting or answer.outlook.tasks
            return f"is starting: {count(number, 'task')} {_wait(number)} for victims to leave their nodes"
        case "next":
            return f"{_waits(answer)} only for the next cycle, which starts {_tasks(answer)}"
        case "turn":
            return f"{_waits(answer)}: {_ahead(answer)}"
        case "no group":
            return "waits: its pods name a PodGroup that does not exist"
        case "no queue":
            return f"waits: {reason or f'queue {answer.queue} does not exist'}"
        case "limit":
            return f"{_waits(answer)}: {answer.limits[0].message}"
        case "room":
            return f"{_waits(answer)}: {_no_room(answer)}"
        case "not let in":
            return f"is not enqueued yet: {reason}"
        case "never":
            return f"{_waits(answer)} and can never start: {reason}"
        case _:
            return f"{_waits(answer)}: {reason}"


def _waits(answer: WaitReport) -> str:
    if answer.running:
        return f"runs {answer.running} of {answer.running + answer.starting + answer.pending} tasks and waits"
    return "waits"


def _tasks(answer: WaitReport) -> str:
    number = answer.outlook.tasks or answer.unit_tasks
    return count(number, "task")


def _no_room(answer: WaitReport) -> str:
    what = "its next task" if answer.unit_tasks == 1 else f"the {answer.unit_tasks} tasks it must start together"
    if answer.unit_tasks == 1 and not answer.running:
        what = "its task"
    some = f"; {answer.fitting_now} of them would fit" if 0 < answer.fitting_now < answer.unit_tasks else ""
    part = ""
    if answer.owed is False and answer.running:
        part = " The job already holds its fair share, and no spare capacity is left."
    elif answer.owed is False:
        part = " The job is entitled to less than that, so it can only start on spare capacity."
    elif answer.owed and answer.target is not None:
        part = " The job is entitled to it."
    if answer.no_domain:
        return f"{answer.no_domain}.{part}"
    return f"not enough free capacity for {what} ({said(answer.unit)}){some}.{part}"


def _ahead(answer: WaitReport) -> str:
    others = [job for job in answer.outlook.first if job != answer.job]
    if others:
        return f"{listed(others)} {'come' if len(others) > 1 else 'comes'} first and {_leave(others)} it no capacity"
    if answer.outlook.kept_for:
        return f"there is free capacity, but it is reserved for {listed(answer.outlook.kept_for)}"
    return "there is free capacity, but not for this job in this cycle"


def _say_time(answer: WaitReport) -> None:
    """What changes through time alone."""
    outlook, now = answer.outlook, answer.now
    if answer.cause in ("running", "finished", "starting", "next"):
        return
    if outlook.starts_at is not None:
        when = "in the next cycle" if outlook.starts_at == now else f"in {seconds(outlook.starts_at - now)}"
        how = f"it preempts {when}: {_victims(answer)}" if outlook.evictions else f"it starts {when}"
        answer.needs = [f"no action needed: {how}"]
    elif outlook.holds_at is not None:
        where = listed(outlook.holds_on)
        kept = "is reserved" if outlook.holds_at <= now else f"will be reserved in {seconds(outlook.holds_at - now)}"
        answer.notes.append(
            f"capacity {kept} for it on {where}; {outlook.hold_lack:.1%} of the cluster is still missing there"
        )


def _victims(answer: WaitReport) -> str:
    gone = answer.outlook.evictions
    jobs = list(dict.fromkeys(eviction.job for eviction in gone))
    return (
        f"{count(len(gone), 'task')} of {listed(jobs)} {'is' if len(gone) == 1 else 'are'} evicted "
        f"({answer.outlook.action})"
    )


def _say_needs(answer: WaitReport) -> None:
    for limit in answer.limits:
        answer.needs.append(_lift(limit.kind, limit.queue, limit.resource, limit.lacks))
    if answer.missing:
        first, *others = answer.missing
        rest = "".join(f", {said(other.amounts)} on {other.node}" for other in others[:2])
        if len(others) > 2:
            rest += f", and more on {count(len(others) - 2, 'other node')}"
        answer.needs.append(
            f"{said(first.amounts)} more must become free on {first.node}{rest} (where least is missing)"
        )
    rung = behind(answer.contest)
    if rung is not None and rung.first is not None and answer.cause in ("room", "turn"):
        answer.needs.append(
            f"{rung.first.name} is before {rung.ours.name} in the serving order, so it gets free capacity first"
        )


def _lift(kind: str, queue: str, resource: str, lacks: str) -> str:
    if kind == "user":
        return (
            f"wait until other jobs of the user in {queue} free {resource} {lacks}, or raise the user "
            "limits of the queue"
        )
    if kind == "capability":
        return f"wait until jobs in {queue} free {resource} {lacks}, or raise its capability"
    if kind == "guarantee":
        return f"wait until jobs in {queue} free {resource} {lacks}, or lower the guarantees of other queues"
    if kind == "deserved":
        return f"wait until jobs in {queue} end, or raise what the queue deserves (its weight)"
    return f"wait until plugin {kind} accepts it"


def behind(contest: Competition | None) -> TreeLevel | None:
    """The first level, from the root, at which another node is served first."""
    rungs = contest.rungs if contest is not None else []
    return next((rung for rung in rungs if rung.first is not None), None)


def _wait(number: int) -> str:
    return "waits" if number == 1 else "wait"


def _leave(others: list[str]) -> str:
    return "leave" if len(others) > 1 else "leaves"
