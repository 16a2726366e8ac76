"""Writes docs/metrics.md from the metrics that scheduler, controllers, webhooks and web page export.

python tools/metrics_page.py > docs/metrics.md

Each component is scraped once, after every counted event has happened, so that all series exist with their labels.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from prometheus_client.core import Metric

from pumice.cli.daemons.leader_election import leading_metric
from pumice.config.load import default_config
from pumice.decision_log.writer import DecisionLog
from pumice.kube.client.api import Api
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.transport import Session
from pumice.kube.resources import JOBS, Document
from pumice.kube.watch.change_queue import Change
from pumice.kube.watch.informer import Informer
from pumice.observability.metrics.admission_metrics import AdmissionMetrics
from pumice.observability.metrics.job_metrics import JobMetrics
from pumice.observability.metrics.scheduler_metrics import JOBS_SHOWN, SchedulerMetrics
from pumice.scheduler.loop import Cycle, Scheduler
from pumice.sim.manifest_files import read_manifests
from pumice.sim.simulation import open_simulation
from pumice.ui.metrics import page_metrics

ROOT = Path(__file__).parent.parent
EXAMPLE = "examples/gang.yaml"
"""In which something starts and something waits."""
OF_THE_LIBRARY = ("process_", "python_")

HEAD = f"""\
# Metrics

<!-- Written by tools/metrics_page.py from the code. Change that instead. -->

The metrics that each process serves at `/metrics`, in the text format of Prometheus;
[operations.md](operations.md#metrics-and-health) says on which address. Metrics that begin with `volcano_` have the
meaning, labels and units of Volcano's, so that dashboards for Volcano keep working; the others are Pumice's own.

- A counter ends in `_total` here as when it is scraped. Counters of Volcano whose names end otherwise keep their names,
  and have no type.
- A histogram is scraped as `..._bucket`, `..._sum` and `..._count`.
- A deleted object has no series. Of the unfinished jobs, the {JOBS_SHOWN:,} oldest have series of their own;
  `pumice_jobs_not_shown` is the number of the others.
- The values of a queue include the queues below it. An inner node of the tree that only hierarchy annotations name has
  no Queue object and is named by its path: `queue_name="root/eng"`.
- Every process also serves the `process_` and `python_` metrics of the client library, such as
  `process_resident_memory_bytes`.
"""

TABLE = "| metric | type | labels | meaning |\n|---|---|---|---|\n"


def page() -> str:
    """The whole page."""
    return "".join([HEAD, *asyncio.run(_sections())])


async def _sections() -> list[str]:
    async with Session(Access("http://127.0.0.1:1")) as session:  # no request is sent
        api = Api(session)
        informer: Informer[Document] = Informer(api, JOBS.raw, cast(Any, None))
        return [
            *_section("The scheduler", [*_of_scheduler(api), leading_metric(True)]),
            *_section("The controllers", [*_of_controllers(informer), leading_metric(True)]),
            *_section("The webhooks", _of_webhooks(informer)),
            *_section("The web page", page_metrics([informer], 0)),
        ]


def _section(title: str, families: Iterable[Metric]) -> Iterator[str]:
    yield f"\n## {title}\n\n{TABLE}"
    for family in sorted(families, key=_name):
        if not family.name.startswith(OF_THE_LIBRARY):
            labels = ", ".join(f"`{label}`" for label in _labels(family))
            kind = "" if family.type == "unknown" else family.type
            yield f"| `{_name(family)}` | {kind} | {labels} | {family.documentation} |\n"


def _name(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


def _labels(family: Metric) -> list[str]:
    """The labels of the series of a family."""
    known = getattr(family, "_labelnames", ())
    return list(known or dict.fromkeys(label for sample in family.samples for label in sample.labels if label != "le"))


def _of_scheduler(api: Api) -> list[Metric]:
    """A scheduler's, after the cycles of an example."""
    scheduler = Scheduler(api, default_config(), decision_log=DecisionLog(ROOT))
    metrics = SchedulerMetrics(scheduler)
    enter = scheduler.on_step
    simulation = open_simulation(read_manifests([str(ROOT / EXAMPLE)]), EXAMPLE)
    scheduler.engine = simulation.cluster.engine
    decisions = simulation.step()
    for part in ("prepare", "allocate", ""):
        enter(part)
    for watcher in scheduler.watchers:
        watcher(Cycle(1, 0.0, 0.0, (), tuple(decisions), scheduler.engine))
    return metrics.collect()


def _of_controllers(informer: Informer[Document]) -> list[Metric]:
    """The controllers', after a job of each end."""
    metrics = JobMetrics(lambda: [informer])
    for phase in ("Completed", "Failed"):
        before, after = ({"status": {"state": {"phase": each}}} for each in ("Running", phase))
        metrics.on_change(Change(JOBS.name, f"default/{phase}", "", "", cast(Document, before), cast(Document, after)))
    return metrics.collect()


def _of_webhooks(informer: Informer[Document]) -> list[Metric]:
    """Those of webhooks that have answered."""
    answered = SimpleNamespace(
        answers={("queues", "CREATE", "allowed"): 1},
        ca_bundle=SimpleNamespace(last_error=""),
        view=SimpleNamespace(informers=[informer]),
    )
    return AdmissionMetrics(cast(Any, answered)).collect()


if __name__ == "__main__":
    sys.stdout.write(page())
