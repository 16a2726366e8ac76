"""A run over a decision log as a plan that any process can carry out."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pumice.decision_log.log_files import log_files
from pumice.decision_log.replay import LogError
from pumice.engine.engine import Engine
from pumice.engine.events import Changed
from pumice.input_errors import BadInput, Problem
from pumice.kube.decode.manifest_errors import ObjectError
from pumice.model.specs import Queue
from pumice.sim.manifest_files import read_manifests
from pumice.sim.manifest_translation import translate_manifest
from pumice.simulate.figures import RunFigures
from pumice.simulate.live_job import LiveJob
from pumice.simulate.policies import Policy, checked_policy
from pumice.simulate.recorded.recorded_cluster import RecordedCluster
from pumice.simulate.recorded.recorded_run import RecordedLog, RecordedRun, read_log
from pumice.simulate.simulation_run import Progress, job_row
from pumice.simulate.workload_file import file_hash

RECORDED = "recorded"
"""The policy of the log itself."""


@dataclass(frozen=True, slots=True)
class LogPlan:
    """What one run over a log shall do. Times are microseconds."""

    log: Path
    policy: Policy
    until: int | None = None  # after the beginning of the log
    grace: int = 0
    jobs_file: str | None = None
    repeat: int = 0

    def run(self, progress: Progress) -> RunFigures:
        """Run it; raises BadInput."""
        if self.jobs_file is None:
            return self._measured(progress, None)
        with Path(self.jobs_file).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            return self._measured(progress, writer)

    def _measured(self, progress: Progress, writer: Any) -> RunFigures:
        log = load_log(self.log)
        is_recorded = self.policy.config_source == RECORDED
        engine = log.engine(None if is_recorded else self.policy.config)
        cluster = RecordedCluster(
            engine,
            log.history,
            grace=self.grace,
            kept_queues=put_manifests(engine, self.policy.objects),
            replaces_engine=is_recorded,
            restarts_engine=is_recorded,
        )
        ended = 0

        def on_job(job: LiveJob) -> None:
            nonlocal ended
            ended += 1
            progress(ended, cluster.now)
            if writer is not None:
                writer.writerow(job_row(self.policy.name, self.repeat, job))

        run = RecordedRun(cluster, on_job)
        run.run(None if self.until is None else cluster.now + self.until)
        return run.figures(self.policy.name, self.repeat)


def load_log(log: Path, since: int | None = None) -> RecordedLog:
    """Read a log; raises BadInput."""
    try:
        found = read_log(log, since)
    except LogError as error:
        raise BadInput([Problem("", "", "", str(error))]) from None
    if not found.history.cycles:
        raise BadInput([Problem(str(log), "", "", "contains no cycle")])
    return found


def recorded_policy() -> Policy:
    """The policy of the log itself, with the configurations that were in force."""
    return Policy(RECORDED, "", RECORDED)


def read_log_policies(texts: Sequence[str], read: Any) -> list[Policy]:
    """The policies of a simulation of a log; by default the recorded one. NAME=FILE keeps its configuration."""
    return [recorded_policy() if text == RECORDED else checked_policy(read(text)) for text in texts or (RECORDED,)]


def put_manifests(engine: Engine, files: Sequence[str]) -> frozenset[str]:
    """Apply manifests to the cluster of an engine; returns the queues among them. Raises BadInput."""
    queues = set()
    problems = []
    for manifest in read_manifests(files) if files else ():
        try:
            parts = translate_manifest(manifest.document, engine.state.registry, engine.now).parts
        except ObjectError as error:
            problems.append(Problem(manifest.file, error.object, error.field, error.message))
            continue
        for part in parts:
            if isinstance(part, Queue):
                queues.add(part.name)
                known = engine.state.queues.get(part.name)
                engine.apply(
                    Changed(part if known is None else replace(part, state=known.state, created=known.created))
                )
            else:
                engine.apply(Changed(part))
    if problems:
        raise BadInput(problems)
    return frozenset(queues)


def log_inputs(log: Path, found: RecordedLog, policies: Sequence[Policy]) -> list[dict[str, Any]]:
    """Every input with its SHA-256: the files of the log, and those of policies."""
    files = log_files(log) if log.is_dir() else [log]
    inputs: list[dict[str, Any]] = [
        {"role": "decision log", "name": str(path), "sha256": file_hash(str(path))} for path in files
    ]
    inputs[0]["cycles"], inputs[0]["decisions"] = len(found.history.cycles), found.history.decisions
    for policy in policies:
        inputs += [{"role": f"policy {policy.name}", "name": path, "sha256": file_hash(path)} for path in policy.files]
    return inputs
