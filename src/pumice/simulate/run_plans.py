"""The runs of a simulation (every policy, every repeat), and the inputs that its report names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pumice.sim.manifest_files import SUFFIXES
from pumice.simulate.cluster_spec import load_cluster
from pumice.simulate.node_groups import NodeGroup
from pumice.simulate.policies import Policy
from pumice.simulate.simulation_run import RunPlan
from pumice.simulate.workload_file import WorkloadFile, file_hash


def plan_runs(
    workload: WorkloadFile,
    policies: Sequence[Policy],
    files: Sequence[str],
    groups: Sequence[NodeGroup],
    *,
    repeats: int,
    seed: int,
    jitter: float,
    speedup: float,
    until: int | None,
    grace: int,
    jobs_folder: Path | None,
) -> list[RunPlan]:
    """A plan for every policy and repeat; raises BadInput before anything runs if a cluster cannot be loaded."""
    for policy in policies:
        load_cluster(workload, policy, files, groups)
    return [
        RunPlan(
            workload,
            policy,
            tuple(files),
            tuple(groups),
            repeat,
            seed,
            jitter,
            speedup,
            until,
            grace,
            None if jobs_folder is None else str(jobs_folder / f"{i}-{repeat}.csv"),
        )
        for i, policy in enumerate(policies)
        for repeat in range(repeats)
    ]


def inputs_of(
    workload: WorkloadFile,
    policies: Sequence[Policy],
    files: Sequence[str],
    nodes: Sequence[str],
    names: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Every input with its SHA-256: the workload, manifests, tables of nodes, and configurations.

    ``names`` says what files are called that exist for this run alone.
    """
    inputs = [
        {
            "role": "workload",
            "name": workload.path,
            "sha256": workload.sha256,
            "format": workload.format,
            "jobs": workload.jobs,
            "tasks": workload.tasks,
            "skipped": sum(workload.skipped.values()),
        }
    ]
    inputs += [
        _file_input("manifests", path) | {"name": names.get(path, path)}
        for given in files
        for path in _each_file(given)
    ]
    inputs += [_file_input("nodes", path) for path in nodes if Path(path).is_file()]
    for policy in policies:
        inputs += [_file_input(f"policy {policy.name}", path) for given in policy.files for path in _each_file(given)]
        if policy.config_source not in policy.files:
            digest = hashlib.sha256(policy.config_text.encode()).hexdigest()
            inputs.append({"role": f"policy {policy.name}", "name": policy.config_source, "sha256": digest})
    return inputs


def _file_input(role: str, path: str) -> dict[str, Any]:
    return {"role": role, "name": path, "sha256": file_hash(path)}


def _each_file(path: str) -> Iterator[str]:
    if not Path(path).is_dir():
        yield path
        return
    yield from sorted(str(file) for file in Path(path).iterdir() if file.suffix in SUFFIXES and file.is_file())
