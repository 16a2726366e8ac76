"""The configuration that an answer of ``pumice why`` goes by: that of the scheduler at work, if anybody can tell.

A scheduler writes its configuration into ``status.scheduler`` of the queue ``root``, which everybody can read who can
read queues at all. Where nothing stands there, or something that cannot be followed here (a plugin that is not
installed), Pumice's default is used, and the answer says that it is a guess. ``--config`` overrides both.
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
    """A configuration, where it is from, and what people should know about that."""

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
    """What the scheduler says of itself; empty: nothing."""
    root = next((queue for queue in queues if (queue.get("metadata") or {}).get("name") == ROOT), {})
    found = (root.get("status") or {}).get("scheduler")
    return found if isinstance(found, dict) else {}


def policy_in_force(about: Mapping[str, Any], given: SchedulerConfig | None) -> SchedulerPolicy:
    """The rules that the scheduler goes by, which says ``about`` itself; or those that were given."""
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
