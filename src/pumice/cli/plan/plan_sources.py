"""Where a plan starts: the objects of a running cluster, the end of a scenario, or a decision log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pumice.admission import Object
from pumice.admission.request import HYPER_NODES, JOBS, NAMESPACES, NODES, PODGROUPS
from pumice.cli.cluster.cluster_command import Cluster
from pumice.cli.cluster.denied_lists import list_if_allowed
from pumice.cli.terminal import RefusedInputError
from pumice.cli.why.cluster_snapshot import ClusterSnapshot
from pumice.cli.why.scheduler_policy import policy_in_force, read_config_file
from pumice.decision_log.log_files import log_files
from pumice.decision_log.replay import LogError, first_time, replay
from pumice.engine.checkpoint.engine_checkpoint import EngineCheckpoint
from pumice.engine.engine import Engine
from pumice.kube import resources
from pumice.model.specs import JobPhase
from pumice.plan.applied_documents import last_applied, queue_document
from pumice.plan.awaited_pods import awaited_pods
from pumice.plan.plan_basis import PlanBasis, StoredObject, basis_of
from pumice.sim.manifest_files import read_manifests
from pumice.sim.manifest_translation import manifest_name
from pumice.sim.simulation import open_simulation

SECOND = 1_000_000
_DOCUMENT_KINDS = (resources.QUEUES, resources.NODES, resources.RESOURCE_QUOTAS, resources.PRIORITY_CLASSES)
_NAMESPACES: resources.Resource[Object] = resources.Resource("v1", "namespaces", "Namespace", dict, namespaced=False)


def cluster_basis(cluster: Cluster, config: Path | None) -> PlanBasis:
    """The running cluster, read once. Ends the command if the user may not read enough of it."""
    given = read_config_file(config)
    snapshot, now = ClusterSnapshot(cluster.client, cluster.namespace), int(time.time() * SECOND)
    if not snapshot.can_explain:
        raise click.ClickException("; ".join(snapshot.denied_notes(cluster.namespace)))
    rules = policy_in_force(snapshot.scheduler, given)
    engine = snapshot.engine(rules.config, now)
    _add_patience(engine)
    documents = {
        manifest_name(document): document
        for resource in _DOCUMENT_KINDS
        for document in _with_kind(snapshot.documents[resource.name], resource)
    }
    applied = {name: found for name, document in documents.items() if (found := last_applied(document)) is not None}
    notes = [f"left out, because it cannot be decoded: {what}" for what in snapshot.unreadable]
    notes += [*rules.notes, *snapshot.denied_notes(cluster.namespace)]
    workloads = list(_workloads(snapshot, cluster))
    awaited = awaited_pods(workloads, engine)
    returning = {task.key for task in engine.state.tasks.values() if task.spec.returns}
    return basis_of(
        f"the cluster at {cluster.client.access.server}",
        engine,
        controlled=frozenset(returning.union(pod.key for pods in awaited.values() for pod in pods)),
        documents=documents,
        applied=applied,
        workloads=workloads,
        awaited_pods=awaited,
        notes=notes,
    )


def _add_patience(engine: Engine) -> None:
    """Let jobs that wait for tasks of their own queue count their time like those that wait for other queues."""
    memory: EngineCheckpoint = engine.checkpoint()
    engine.restore(replace(memory, preempts=replace(memory.preempts, since=dict(memory.reclaims.since))))


def _with_kind(documents: Sequence[Object], resource: resources.Resource[Any]) -> list[Object]:
    """Items of a list, which do not repeat their kind."""
    return [{"apiVersion": resource.api_version, "kind": resource.kind, **document} for document in documents]


def _workloads(snapshot: ClusterSnapshot, cluster: Cluster) -> list[StoredObject]:
    """What admission follows: nodes, HyperNodes, namespaces, PodGroups and Jobs."""
    found: list[StoredObject] = []
    listed = (
        (NODES, snapshot.documents[resources.NODES.name]),
        (HYPER_NODES, snapshot.documents[resources.HYPER_NODES.name]),
        (NAMESPACES, list_if_allowed(cluster.client, _NAMESPACES.path()) or []),
        (PODGROUPS, snapshot.documents[resources.POD_GROUPS.name]),
        (JOBS, list_if_allowed(cluster.client, resources.JOBS.path()) or []),
    )
    for resource, documents in listed:
        for document in documents:
            about = document["metadata"]
            found.append((resource, str(about.get("namespace") or ""), str(about["name"]), document))
    return found


def scenario_basis(files: Sequence[str], config: Path | None) -> PlanBasis:
    """The end of a scenario; raises BadInput."""
    simulation = open_simulation(read_manifests(files), files[0])
    simulation.run()
    cluster = simulation.cluster
    if (given := read_config_file(config)) is not None:
        cluster.reconfigure(given)
    applied = {manifest_name(one.document): dict(one.document) for one in simulation.scenario.manifests}
    admitted = simulation.admission.queue_documents
    documents = applied | {f"Queue/{name}": {"kind": "Queue", **one} for name, one in admitted.items()}
    engine = cluster.engine
    engine.context.now = max(engine.now, cluster.now)
    return basis_of(
        f"scenario {simulation.scenario.name}",
        engine,
        controlled=frozenset(cluster.recreated_pods),
        documents=documents,
        applied=applied,
    )


def log_basis(log: Path, at: int | None) -> PlanBasis:
    """The end of a decision log, or a moment in it. Ends the command if it cannot be replayed."""
    try:
        outcome = replay(_file_at(log, at), at=at, compare_targets=False)
    except LogError as error:
        raise RefusedInputError(str(error)) from None
    engine = outcome.engine
    if engine is None:
        raise RefusedInputError(f"{outcome.path}: the file ends before its first cycle")
    notes = []
    if outcome.difference is not None:
        notes.append(
            f"{outcome.path}: this version decides differently from cycle {outcome.difference.cycle} on; "
            "the plan starts there"
        )
    return engine_basis(f"decision log {log}", engine, notes)


def engine_basis(name: str, engine: Engine, notes: Sequence[str] = ()) -> PlanBasis:
    """The state of an engine of which nothing else is known.

    If it is not known of any pod that it comes back after an eviction, all do: older logs do not say it.
    """
    queues, tasks = engine.state.queues.values(), engine.state.tasks.values()
    returning = frozenset(task.key for task in tasks if task.spec.returns)
    podless = sorted(
        job.key
        for job in engine.state.jobs.values()
        if job.phase is JobPhase.PENDING and job.spec and not job.task_count
    )
    if podless:
        unknown = f"{', '.join(podless[:3])}{f' and {len(podless) - 3} more' if len(podless) > 3 else ''}"
        notes = [*notes, f"not let in yet, so that their pods are unknown here: {unknown}"]
    return basis_of(
        name,
        engine,
        controlled=returning or frozenset(engine.state.tasks),
        documents={f"Queue/{queue.name}": queue_document(queue, engine.state.registry) for queue in queues},
        applied={},
        notes=notes,
    )


def newest_file(log: Path) -> Path:
    """The newest file of a log that has a cycle."""
    return _file_at(log, None)


def _file_at(log: Path, at: int | None) -> Path:
    """The file of a log that contains a time; the newest that has a cycle if none is given."""
    if not log.is_dir():
        return log
    for path in reversed(log_files(log)):
        first = first_time(path)
        if first is not None and (at is None or first <= at):
            return path
    raise RefusedInputError(f"no decision log with a cycle found in {log}" + ("" if at is None else " at that time"))
