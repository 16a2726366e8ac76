"""Writes deploy/grafana/pumice.json, a dashboard for the metrics of scheduler, controllers and webhooks.

python -m tools.grafana_board

Each row answers one question; its first panel shows whether something is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

BOARD = Path(__file__).parent.parent / "deploy" / "grafana" / "pumice.json"
WIDTH, HEIGHT = 24, 8
QUEUES = 'queue_name=~"$queue"'
_RATE = "$__rate_interval"

Object = dict[str, Any]


class Panel(NamedTuple):
    """A panel: expressions with their legends, in a unit of Grafana."""

    title: str
    series: dict[str, str]
    unit: str = "short"
    about: str = ""
    kind: str = "timeseries"
    width: int = 8


def _quantiles(metric: str) -> dict[str, str]:
    buckets = f"sum by (le) (rate({metric}_bucket[{_RATE}]))"
    return {name: f"histogram_quantile({part}, {buckets})" for name, part in (("median", 0.5), ("99 %", 0.99))}


def _of_queues(metric: str, over: int = 1, **chosen: str) -> dict[str, str]:
    """A series for each selected queue."""
    labels = "".join(f'{name}="{value}", ' for name, value in chosen.items())
    return {"{{queue_name}}": f"max by (queue_name) ({metric}{{{labels}{QUEUES}}}){f' / {over}' if over > 1 else ''}"}


def _per_second(metric: str, by: str = "") -> str:
    return f"sum{f' by ({by})' if by else ''} (rate({metric}[{_RATE}]))"


_OTHERS = {
    "{{queue_name}} {{resource}}": "max by (queue_name, resource) "
    f"(volcano_queue_allocated_scalar_resources{{{QUEUES}}}) / 1000"
}

ROWS: dict[str, tuple[Panel, ...]] = {
    "Is anything wrong?": (
        Panel(
            "Not followed",
            {"{{job}} {{pod}} {{resource}}": "pumice_informer_behind > 0"},
            about="Resources that the API does not let us follow. Must be empty.",
            width=6,
        ),
        Panel(
            "Writes refused per second",
            {
                "binds": _per_second("pumice_binds_failed_total"),
                "evictions": _per_second("pumice_evictions_failed_total"),
            },
            "ops",
            width=6,
        ),
        Panel(
            "Settings, log, certificate",
            {
                "configuration refused": "max(pumice_configuration_refused)",
                "decision log broken": "max(pumice_decision_log_broken)",
                "certificate not kept": "max(pumice_certificate_trouble)",
                "takings without gain": "sum(pumice_takings_without_gain_total)",
            },
            about="Each of these is 0 when all is well.",
            width=6,
        ),
        Panel(
            "Admission not answered per second",
            {"{{resource}}": _per_second('pumice_admission_answers_total{answer="failed"}', "resource")},
            "ops",
            width=6,
        ),
    ),
    "Who has what?": (
        Panel(
            "Dominant share",
            _of_queues("pumice_queue_dominant_share"),
            "percentunit",
            "Of the cluster; a queue with all below it.",
        ),
        Panel(
            "cpu held",
            _of_queues("volcano_queue_allocated_milli_cpu", 1000),
            "short",
            "Cores.",
        ),
        Panel(
            "Memory held",
            _of_queues("volcano_queue_allocated_memory_bytes"),
            "bytes",
        ),
        Panel(
            "cpu entitled",
            _of_queues("pumice_queue_entitled", resource="cpu"),
            "short",
            "Cores.",
        ),
        Panel(
            "Other resources held",
            _OTHERS,
        ),
        Panel(
            "Below target",
            _of_queues("pumice_queue_shortfall"),
            "percentunit",
            "How far jobs are below their whole targets, in parts of the cluster.",
        ),
    ),
    "Who waits?": (
        Panel(
            "Podgroups pending",
            _of_queues("volcano_queue_pod_group_pending_count"),
        ),
        Panel(
            "Podgroups let in",
            _of_queues("volcano_queue_pod_group_inqueue_count"),
        ),
        Panel(
            "Podgroups running",
            _of_queues("volcano_queue_pod_group_running_count"),
        ),
        Panel("Jobs without room", {"jobs": "max(volcano_unschedule_job_count)"}),
        Panel(
            "Pod waits",
            _quantiles("volcano_task_scheduling_latency_milliseconds"),
            "ms",
            "From its creation to the decision where it goes.",
        ),
        Panel(
            "Job waits",
            _quantiles("volcano_e2e_job_scheduling_latency_milliseconds"),
            "ms",
            "From the creation of a podgroup to each time it is served.",
        ),
    ),
    "What does it do?": (
        Panel(
            "Binds per second",
            {"bound": _per_second("pumice_binds_total"), "again": _per_second("pumice_binds_retried_total")},
            "ops",
        ),
        Panel(
            "Evictions per second",
            {
                "pods": _per_second("pumice_evictions_total"),
                "{{action}}": _per_second("volcano_eviction_transactions_total", "action"),
            },
            "ops",
        ),
        Panel(
            "Under way",
            {
                "writes": "max(pumice_writes_in_flight)",
                "not seen yet": "max(pumice_assumptions_open)",
                "changes that wait": "max(pumice_changes_waiting)",
            },
        ),
        Panel("Cycle", _quantiles("pumice_cycle_seconds"), "s"),
        Panel(
            "Time by part of the cycle",
            {"{{part}}": _per_second("pumice_cycle_part_seconds_total", "part")},
            "percentunit",
            "Of each second.",
        ),
        Panel("Decisions per second", {"{{kind}}": _per_second("pumice_decisions_total", "kind")}, "ops"),
        Panel(
            "Jobs that ended",
            {"completed": "sum(volcano_job_completed_phase_count)", "failed": "sum(volcano_job_failed_phase_count)"},
        ),
        Panel(
            "Admission per second",
            {"{{resource}} {{answer}}": _per_second("pumice_admission_answers_total", "resource, answer")},
            "ops",
        ),
        Panel("Memory", {"{{pod}}": 'process_resident_memory_bytes{job=~".*pumice.*"}'}, "bytes"),
    ),
}


def board() -> Object:
    """The board."""
    chosen = {
        "name": "queue",
        "label": "Queue",
        "type": "query",
        "query": "label_values(pumice_queue_dominant_share, queue_name)",
        "datasource": _SOURCE,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
        "sort": 1,
    }
    source = {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"}
    return {
        "uid": "pumice",
        "title": "Pumice",
        "tags": ["pumice", "scheduling"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [source, chosen]},
        "panels": list(_panels()),
    }


_SOURCE = {"type": "prometheus", "uid": "${source}"}


def _panels() -> Iterator[Object]:
    number, below = 0, 0
    for title, panels in ROWS.items():
        number += 1
        place = {"x": 0, "y": below, "w": WIDTH, "h": 1}
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}
        below, left = below + 1, 0
        for panel in panels:
            if left + panel.width > WIDTH:
                left, below = 0, below + HEIGHT
            number += 1
            yield _drawn(number, panel, {"x": left, "y": below, "w": panel.width, "h": HEIGHT})
            left += panel.width
        below += HEIGHT


def _drawn(number: int, panel: Panel, place: Object) -> Object:
    targets = [
        {"refId": chr(ord("A") + i), "datasource": _SOURCE, "expr": expression, "legendFormat": name, "range": True}
        for i, (name, expression) in enumerate(panel.series.items())
    ]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": place,
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
    }


def main() -> None:
    """Write it."""
    BOARD.parent.mkdir(parents=True, exist_ok=True)
    BOARD.write_text(json.dumps(board(), indent=2) + "\n")


if __name__ == "__main__":
    main()
