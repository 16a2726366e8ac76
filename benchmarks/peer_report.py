"""The comparison as a table: medians and ranges of each scheduler, and how many times as fast Pumice is."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

import msgspec

from benchmarks.peer_trials import PEERS, Trial

COMPILED, PURE = "Pumice, compiled", "Pumice, pure Python"
ADMITTERS = {peer.name for peer in PEERS if not peer.picks_nodes}
DAGGER, ADMITS = "†", "picks no nodes: these are the tasks of admitted jobs."


class Summary(msgspec.Struct):
    """The runs of one system on one workload."""

    workload: str
    system: str
    version: str
    runs: int
    median: float  # placements per second, as are the two below
    min: float
    max: float
    cpu_microseconds: float  # of a placement, median
    peak_rss_mib: float
    partial: bool
    reason: str
    times: dict[str, float]  # by form of Pumice: its median over this one; none for the compiled form itself


def summarise(trials: Iterable[Trial]) -> list[Summary]:
    """Medians and ranges by workload and system, in the order they first ran."""
    groups: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((trial.workload, trial.peer), []).append(trial)
    medians = {key: statistics.median(t.placements_per_second for t in group) for key, group in groups.items()}
    summaries = []
    for (workload, system), group in groups.items():
        rates = [trial.placements_per_second for trial in group]
        median = medians[workload, system]
        summaries.append(
            Summary(
                workload=workload,
                system=system,
                version=group[0].version,
                runs=len(group),
                median=median,
                min=min(rates),
                max=max(rates),
                cpu_microseconds=statistics.median(1e6 * t.cpu_seconds / max(t.placements, 1) for t in group),
                peak_rss_mib=max(trial.peak_rss_mib for trial in group),
                partial=any(trial.partial for trial in group),
                reason=next((trial.reason for trial in group if trial.partial), ""),
                times={
                    form: medians[workload, form] / median
                    for form in (COMPILED, PURE)
                    if median and system not in (form, COMPILED) and (workload, form) in medians
                },
            )
        )
    return summaries


def table(summaries: list[Summary], left_out: dict[str, str]) -> str:
    """A Markdown table with a row for every system and workload, and what has to be known to read it."""
    forms = [form for form in (COMPILED, PURE) if any(summary.system == form for summary in summaries)]
    rows = [
        ["workload", "scheduler", "placements/s", *(f"{form} is faster by" for form in forms), "CPU", "peak memory"]
    ]
    rows += [row(summary, forms) for summary in summaries]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ["-" * width for width in widths])
    lines = ["| " + " | ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)) + " |" for row in rows]
    shown = {summary.system for summary in summaries}
    return "\n".join(
        [
            *lines,
            "",
            "Median (range) of the runs; CPU time of all threads for each placement.",
            *dict.fromkeys(f"* {s.system}: {s.reason}; its rate is that until then" for s in summaries if s.partial),
            *(
                f"{DAGGER} {name} picks no nodes: these are the tasks of admitted jobs."
                for name in sorted(ADMITTERS & shown)
            ),
            *(f"{peer.name}: {peer.remark}." for peer in PEERS if peer.name in shown),
            *(f"{name} is not in the table: {reason}" for name, reason in left_out.items()),
        ]
    )


def row(summary: Summary, forms: list[str]) -> list[str]:
    """For example `C`, `YuniKorn v1.9.0`, `4,284 (4,101-4,333)`, `13.5x`, `7.5x`, `310 µs`, `458 MiB`."""
    marks = DAGGER * (summary.system in ADMITTERS) + "*" * summary.partial
    return [
        summary.workload,
        f"{summary.system} {summary.version}".rstrip(),
        f"{summary.median:,.0f}{marks} ({summary.min:,.0f}-{summary.max:,.0f})",
        *(f"{summary.times[form]:,.1f}x" if form in summary.times else "" for form in forms),
        f"{summary.cpu_microseconds:,.0f} µs",
        f"{summary.peak_rss_mib:,.0f} MiB",
    ]
