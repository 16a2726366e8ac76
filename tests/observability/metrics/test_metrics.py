"""What ``/metrics`` says of a live run, against a recount of the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import aiohttp
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from kubesim.server import RunningCluster
from pumice.config.load import default_config
from pumice.kube.resources import JOBS, Document
from pumice.kube.watch.change_queue import Change
from pumice.observability.endpoints import Endpoints
from pumice.observability.metrics.job_metrics import JobMetrics
from pumice.observability.metrics.scheduler_metrics import SchedulerMetrics
from pumice.observability.probes import scheduler_probes
from pumice.scheduler.loop import Scheduler
from tests.support.live_cluster import GROUPS, QUEUES, eventually, live, placed, scheduling, submit

CPU_EACH = 1000  # thousandths; see ``submit``

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def series(families: Iterable[Metric]) -> Series:
    found: Series = {}
    for family in families:
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found, f"{key} is there twice"
            found[key] = sample.value
    return found


async def scrape(scheduler: Scheduler) -> Series:
    """Over HTTP, as Prometheus does."""
    async with (
        Endpoints(("127.0.0.1", 0), scheduler_probes(scheduler)) as endpoints,
        aiohttp.ClientSession() as session,
        session.get(f"{endpoints.url}/metrics") as answer,
    ):
        assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return series(text_string_to_metric_families(await answer.text()))


def of(found: Series, name: str, label: str = "queue_name") -> dict[str, float]:
    return {dict(labels)[label]: value for (metric, labels), value in found.items() if metric == name}


async def make_queue(running: RunningCluster, name: str, weight: int, parent: str = "root") -> None:
    spec = {"weight": weight, "parent": parent, "capability": {"cpu": "11"}}
    await running.api.create(QUEUES, "", {"metadata": {"name": name}, "spec": spec})


def test_the_figures_equal_a_recount_of_the_cluster(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        await make_queue(running, "org", 1)
        for name, weight in (("a", 2), ("b", 1)):
            await make_queue(running, name, weight, parent="org")
        async with scheduling(running.server) as scheduler:
            metrics = SchedulerMetrics(scheduler)
            await submit(running, "one", 5, queue="a")
            await submit(running, "two", 3, queue="b")
            # 4 cpu are left and nobody is entitled to more than that many beside the two: 9 do not fit.
            await submit(running, "large", 9, queue="b")
            await eventually(lambda: len(placed(running)["one"]) == 5 and len(placed(running)["two"]) == 3)
            await eventually(lambda: "default/large" in scheduler.engine.context.decided.conditions)
            await scheduler.binder.done()
            await eventually(lambda: scheduler.cache.open_assumptions == 0)
            found = series(metrics.collect())

        bound = {job: len(where) for job, where in placed(running).items()}
        assert bound == {"one": 5, "two": 3}
        cpu = {"a": 5 * CPU_EACH, "b": 3 * CPU_EACH, "org": 8 * CPU_EACH, "root": 8 * CPU_EACH, "default": 0}
        assert of(found, "volcano_queue_allocated_milli_cpu") == cpu
        assert of(found, "volcano_queue_request_milli_cpu") == {**cpu, "b": 12_000, "org": 17_000, "root": 17_000}
        assert of(found, "volcano_queue_weight") == {"a": 2, "b": 1, "org": 1, "root": 1, "default": 1}
        assert of(found, "volcano_queue_capacity_milli_cpu") == dict.fromkeys(("a", "b", "org"), 11_000)
        # Of the 11 cpu that org may have a is entitled to what it asks for, 5, and b to the rest.
        assert of(found, "volcano_queue_deserved_milli_cpu")["a"] == 5000
        assert of(found, "volcano_queue_deserved_milli_cpu")["b"] == 6000
        assert of(found, "volcano_queue_share")["a"] == 1.0
        assert of(found, "pumice_queue_dominant_share")["org"] == 8 / 12
        groups = Counter(group["status"]["phase"] for group in running.api.list(GROUPS))
        for phase in ("Pending", "Inqueue", "Running", "Unknown", "Completed"):
            assert of(found, f"volcano_queue_pod_group_{phase.lower()}_count")["root"] == groups[phase]
        assert found["pumice_binds_total", ()] == 8 == found["volcano_task_scheduling_latency_milliseconds_count", ()]
        assert of(found, "pumice_decisions_total", "kind")["Bind"] == 8
        assert of(found, "volcano_schedule_attempts_total", "result")["scheduled"] == 8
        assert of(found, "volcano_unschedule_task_count", "job_id") == {"default/large": 9}
        assert found["volcano_unschedule_job_count", ()] == 1
        assert of(found, "volcano_namespace_share", "namespace_name") == {"default": 8 / 12}
        assert of(found, "volcano_job_share", "job_id") == {"one": 5 / 12, "two": 3 / 12, "large": 0}
        assert of(found, "pumice_takings_without_gain_total", "action") == {"reclaim": 0, "preempt": 0}
        assert found["volcano_e2e_scheduling_latency_milliseconds_count", ()] <= scheduler.cycles

    live(tmp_path, check)


def test_metrics_omit_deleted_queues_and_jobs(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        await make_queue(running, "brief", 1)
        async with scheduling(running.server) as scheduler:
            metrics = SchedulerMetrics(scheduler)
            await submit(running, "short", 2, queue="brief")
            await eventually(lambda: len(placed(running)["short"]) == 2)
            before = series(metrics.collect())
            assert "brief" in of(before, "volcano_queue_share") and "short" in of(before, "volcano_job_share", "job_id")
            for pod in ("short-0", "short-1"):
                await running.api.delete("pods", "default", pod)
            await running.api.delete(GROUPS, "default", "short")
            await running.api.delete(QUEUES, "", "brief")
            await eventually(lambda: "brief" not in scheduler.engine.state.queues)
            await eventually(lambda: "default/short" not in scheduler.engine.tree.jobs)
            await eventually(lambda: "default/short" not in scheduler.engine.state.jobs)
            after = series(metrics.collect())
        gone = {"brief", "short", "default/short"}
        assert any(gone & set(dict(labels).values()) for _, labels in before)
        assert not [key for key in after if gone & set(dict(key[1]).values())]

    live(tmp_path, check)


def test_a_scrape_over_http_can_be_read(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        async with scheduling(running.server) as scheduler:
            await eventually(lambda: scheduler.cycles > 0)
            found = await scrape(scheduler)
            assert of(found, "pumice_informer_lists_total", "resource")["pods"] == 1
            assert found["volcano_total_preemption_attempts", ()] == 0
            assert found["process_resident_memory_bytes", ()] > 0

    live(tmp_path, check)


def test_only_so_many_jobs_have_series_of_their_own(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]  # pytest's own fixture
    monkeypatch.setattr("pumice.observability.metrics.scheduler_metrics.JOBS_SHOWN", 2)

    async def check(running: RunningCluster) -> None:
        async with scheduling(running.server) as scheduler:
            metrics = SchedulerMetrics(scheduler)
            for name in ("one", "two", "three"):
                await submit(running, name, 1)
                await eventually(lambda name=name: len(placed(running)[name]) == 1)  # type: ignore[misc]  # a lambda with a default
            found = series(metrics.collect())
        assert of(found, "volcano_job_share", "job_id").keys() == {"one", "two"}
        assert found["pumice_jobs_not_shown", ()] == 1

    live(tmp_path, check)


def job(phase: str) -> Document:
    return {"metadata": {"name": "j"}, "spec": {"queue": "q"}, "status": {"state": {"phase": phase}}}


def heard(old: str | None, new: str | None) -> Change[Document]:
    return Change(JOBS.name, "ns/j", "uid", "1", old and job(old), new and job(new))  # type: ignore[arg-type]  # no status is no job


def test_jobs_that_end_are_counted_until_they_are_gone() -> None:
    metrics = JobMetrics(list)
    labels = (("job_name", "ns/j"), ("queue_name", "q"))
    metrics.on_change(heard(None, "Completed"))  # it was over before anybody looked
    assert ("volcano_job_completed_phase_count", labels) not in series(metrics.collect())
    for old, new in (("Running", "Failed"), ("Failed", "Failed"), ("Failed", "Running"), ("Running", "Failed")):
        metrics.on_change(heard(old, new))
    metrics.on_change(heard("Running", "Completed"))
    found = series(metrics.collect())
    assert found["volcano_job_failed_phase_count", labels] == 2
    assert found["volcano_job_completed_phase_count", labels] == 1
    metrics.on_change(heard("Completed", None))
    assert not [key for key in series(metrics.collect()) if key[1] == labels]


def test_cycles_are_measured_on_under_another_configuration(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        async with scheduling(running.server) as scheduler:
            metrics = SchedulerMetrics(scheduler)
            allocate = ("volcano_action_scheduling_latency_milliseconds_count", (("action", "allocate"),))
            await eventually(lambda: series(metrics.collect()).get(allocate, 0) > 0)
            before = scheduler.engine
            scheduler.reconfigure(default_config())
            await eventually(lambda: scheduler.engine is not before)
            seen = series(metrics.collect())[allocate]
            await eventually(lambda: series(metrics.collect())[allocate] >= seen + 1)

    live(tmp_path, check)


def test_weights_are_those_that_count_and_inner_nodes_are_shown_by_their_path(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        for name, weights in (("prod", "1/2/8"), ("dev", "1/2/0.5")):
            annotations = {"volcano.sh/hierarchy": f"root/eng/{name}", "volcano.sh/hierarchy-weights": weights}
            await running.api.create(QUEUES, "", {"metadata": {"name": name, "annotations": annotations}})
        async with scheduling(running.server) as scheduler:
            metrics = SchedulerMetrics(scheduler)
            await submit(running, "one", 3, queue="prod")
            await submit(running, "two", 2, queue="dev")
            await eventually(lambda: sum(map(len, placed(running).values())) == 5)
            found = series(metrics.collect())
        weights_shown = {"root": 1, "default": 1, "root/eng": 2, "prod": 8, "dev": 0.5}
        assert of(found, "volcano_queue_weight") == weights_shown
        assert of(found, "volcano_queue_allocated_milli_cpu")["root/eng"] == 5 * CPU_EACH
        assert of(found, "volcano_queue_pod_group_running_count").keys() == weights_shown.keys()

    live(tmp_path, check)
