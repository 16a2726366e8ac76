"""Why jobs of a cluster wait: one snapshot and one engine for all that are asked about."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from pumice.cli.cluster.cluster_command import Cluster
from pumice.cli.terminal import print_error
from pumice.cli.why.cluster_snapshot import ClusterSnapshot, JobLookup, NoSuchJobError
from pumice.cli.why.process_copy import in_process_copy
from pumice.cli.why.scheduler_policy import SchedulerPolicy, policy_in_force, read_config_file
from pumice.cli.why.status_report import status_report
from pumice.engine.config.scheduler_config import SchedulerConfig
from pumice.engine.engine import Engine
from pumice.engine.explain import WaitReport, explain
from pumice.kube.decode.container_states import blocked_summary

SECOND = 1_000_000


def explain_in_cluster(
    jobs: Sequence[str], cluster: Cluster, config: Path | None
) -> tuple[list[WaitReport | None], Mapping[str, str]]:
    """The answer about each job (None: not found, which a message says), and names of jobs by their PodGroups."""
    chosen = read_config_file(config)
    with _garbage_kept():
        return _explain_by_snapshot(jobs, cluster, chosen)


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """Collect no garbage: a snapshot is a million objects that live to the end, and looking at them takes long."""
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            gc.enable()


def _explain_by_snapshot(
    jobs: Sequence[str], cluster: Cluster, chosen: SchedulerConfig | None
) -> tuple[list[WaitReport | None], Mapping[str, str]]:
    snapshot, now = ClusterSnapshot(cluster.client, cluster.namespace), int(time.time() * SECOND)
    rules = policy_in_force(snapshot.scheduler, chosen)
    found = [_look_up(job, snapshot, cluster.namespace) for job in jobs]
    answers: list[WaitReport | None] = [None] * len(found)
    engine: Engine | None = None
    waiting = 0
    for j, each in enumerate(found):
        if each is None:
            continue
        if not each.key:
            answers[j] = WaitReport("", "no group", verdict=each.verdict, now=now, needs=list(each.notes))
        elif not snapshot.can_explain:
            answers[j] = _named(status_report(snapshot, cluster.client, each.key, now), each)
        else:
            engine = engine or snapshot.engine(rules.config, now)
            waiting = j
    if engine is not None:
        for j, each in enumerate(found):
            if each is not None and answers[j] is None:
                answer = partial(_explain, engine, snapshot, each, rules, now)
                answers[j] = answer() if j == waiting else in_process_copy(answer)
    for one in answers:
        if one is not None:
            one.notes += snapshot.denied_notes(cluster.namespace)
    return answers, snapshot.job_names()


def _look_up(job: str, snapshot: ClusterSnapshot, namespace: str) -> JobLookup | None:
    """A job by [[NAMESPACE/]KIND/]NAME; None: not found, which a message says."""
    own, separator, name = job.partition("/")
    elsewhere = bool(separator) and "/" in name
    try:
        return snapshot.find(name if elsewhere else job, own if elsewhere else namespace)
    except NoSuchJobError as error:
        print_error("; ".join([str(error), *snapshot.denied_notes(namespace)]))
        return None


def _explain(
    engine: Engine, snapshot: ClusterSnapshot, found: JobLookup, rules: SchedulerPolicy, now: int
) -> WaitReport:
    explained = explain(engine, found.key, now)
    assert explained is not None, f"{found.key} is among the objects"
    answer = _named(explained, found)
    answer.rules = rules.origin
    _add_containers(snapshot, found.key, answer)
    _add_gates(snapshot, found.key, answer)
    if answer.cause == "pods":
        answer.notes += snapshot.exhausted_quotas(found.key.partition("/")[0])
    if answer.cause == "next" and now - max(answer.created, answer.last_start) > 30 * SECOND:
        answer.notes.append("nothing has prevented a start for a while: is a scheduler running?")
    answer.notes += [f"ignored, because it cannot be decoded: {what}" for what in snapshot.unreadable]
    answer.notes += rules.notes
    return answer


def _named(answer: WaitReport, found: JobLookup) -> WaitReport:
    """The report under the name of the request, with what the lookup found."""
    answer.notes += found.notes
    if found.requested_name:
        answer.called = found.requested_name
        answer.verdict = answer.verdict.replace(found.key, found.requested_name, 1)
    return answer


def _add_containers(snapshot: ClusterSnapshot, key: str, answer: WaitReport) -> None:
    """Add the containers that cannot start. To the scheduler their pods run, so the verdict has to say it."""
    blocked, running = snapshot.blocked_containers(key)
    if not blocked:
        return
    answer.containers = [each.text() for each in blocked]
    summary = f"{blocked_summary(blocked, running)}: {answer.containers[0]}"
    if answer.cause == "running":
        answer.verdict = f"{answer.called or answer.job} has nodes, but {summary}"
    else:
        answer.verdict = f"{answer.verdict.rstrip('.')}. Also, {summary}"
    answer.needs.append(
        "correct the image, command or configuration of these containers: kubectl describe pod says more"
    )


def _add_gates(snapshot: ClusterSnapshot, key: str, answer: WaitReport) -> None:
    """Add the pods with scheduling gates. To the scheduler they do not exist, so the job may seem to lack pods."""
    gated = snapshot.gated_pods(key)
    if not gated:
        return
    number = "1 pod has" if len(gated) == 1 else f"{len(gated)} pods have"
    pod, gates = gated[0]
    summary = f"{number} scheduling gates and cannot be placed until they are removed: pod {pod}: {', '.join(gates)}"
    if answer.cause == "pods":
        answer.verdict = f"{answer.verdict.rstrip('.')}; {summary}"
        answer.needs = ["wait until the scheduling gates are removed by the controllers that added them"]
    else:
        answer.notes.append(summary)
