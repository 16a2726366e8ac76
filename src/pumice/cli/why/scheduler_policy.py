"""The scheduler configuration that ``pumice why`` assumes: by default that of the running scheduler.

A scheduler publishes its configuration in ``status.scheduler`` of the queue ``root``, readable for everyone who may
read queues. Without it, or if it cannot be used here (a plugin that is not installed), the default configuration is
assumed and the report says so. ``--config`` overrides both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from pumice.config.load import default_config, read_config
from pumice.engine.config.scheduler_config import ConfigError, SchedulerConfig
from pumice.kube.client.sync_client import Document
from pumice.model.specs import ROOT


@dataclass(frozen=True, slots=True)
class SchedulerPolicy:
    """A configuration, its origin, and notes about it."""

    config: SchedulerConfig
    origin: str
    notes: list[str] = field(default_factory=list)


def read_config_file(file: Path | None) -> SchedulerConfig | None:
    """The configuration in a file that was named; None: none was. Ends the command if it cannot be used."""
    if file is None:
        return None
    try:
        return read_config(file.read_text(encoding="utf-8"), str(file))
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{file}: not UTF-8 text: {error.reason} at byte {error.start}") from None
    except ConfigError as error:
        raise click.UsageError(str(error)) from None


def published_scheduler(queues: list[Document]) -> Mapping[str, Any]:
    """The published state of the running scheduler; empty if there is none."""
    root = next((queue for queue in queues if (queue.get("metadata") or {}).get("name") == ROOT), {})
    found = (root.get("status") or {}).get("scheduler")
    return found if isinstance(found, dict) else {}


def policy_in_force(about: Mapping[str, Any], given: SchedulerConfig | None) -> SchedulerPolicy:
    """The given configuration, else the one that the scheduler has published, else the default."""
    text, source = about.get("configuration"), str(about.get("source") or "its configuration")
    if given is not None:
        other = isinstance(text, str) and text != given.text
        note = f"explained with {given.source}; the running scheduler uses {source}, which differs"
        return SchedulerPolicy(given, f"--config {given.source}", [note] if other else [])
    guess = "assuming the default configuration of Pumice; use --config to name another"
    if not isinstance(text, str):
        why = f"no scheduler has published its configuration in status.scheduler of queue {ROOT}"
        return SchedulerPolicy(default_config(), "guessed", [f"{why}: {guess}"])
    try:
        return SchedulerPolicy(read_config(text, source), f"the running scheduler: {source}")
    except ConfigError as error:
        return SchedulerPolicy(
            default_config(),
            "guessed",
            [f"the configuration of the running scheduler cannot be used here: {error}: {guess}"],
        )
