"""The policies that a simulation compares: built in by name, or a configuration and changed objects in files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from pumice.config.load import read_config
from pumice.engine.config.scheduler_config import DEFAULT_CONFIG, ConfigError, SchedulerConfig
from pumice.input_errors import BadInput, Problem, did_you_mean

# Without preempt: among jobs of one priority it could only trade tasks inside a queue, and trying takes most of the
# time.
_OTHERS = """\
actions: "enqueue, allocate, backfill, reclaim"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
{order}
  - name: predicates
  - name: nodeorder
  - name: overcommit
"""
_PAPER = "  - name: drf\n    enableHierarchy: true\n    arguments: {drf.rule: paper}\n  - name: capacity"
# Every job has the same deadline after its submission, so the earliest deadline is the earliest submission. Without an
# order of queues, flat DRF ranks a queue by its first job.
_FIRST_COME = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: sla
    arguments: {sla-waiting-time: 1000000h}
  - name: gang
- plugins:
  - name: drf
  - name: predicates
  - name: nodeorder
"""
BUILT_IN_POLICIES = {
    "steer": DEFAULT_CONFIG,
    "paper": _OTHERS.format(order=_PAPER),
    "capacity": _OTHERS.format(order="  - name: capacity"),
    "proportion": _OTHERS.format(order="  - name: proportion"),
    "fcfs": _FIRST_COME,
}
"""Configurations by name. ``fcfs``: the job that was submitted first is tried first, whatever its queue; later jobs may
use what it cannot."""

DEFAULT_POLICY = "steer"


@dataclass(frozen=True, slots=True)
class Policy:
    """A name in reports, a configuration, and the files whose objects replace those of the cluster."""

    name: str
    config_text: str
    config_source: str
    files: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()

    @property
    def config(self) -> SchedulerConfig:
        """The configuration; raises ConfigError."""
        return read_config(self.config_text, self.config_source)

    @property
    def deserves_by_weight(self) -> bool:
        """Whether queues that are made for a workload deserve a part by weight: ``capacity`` shares by nothing else."""
        return self.config_source == "the built-in policy capacity"


def read_policy(text: str) -> Policy:
    """A policy as ``--policy`` names it: ``steer``, ``NAME=FILE`` or ``NAME=FILE,FILE``; raises BadInput."""
    name, equals, given = text.partition("=")
    if not equals:
        if name not in BUILT_IN_POLICIES:
            hint = (
                did_you_mean(name, BUILT_IN_POLICIES) or f"; write NAME=FILE or one of {', '.join(BUILT_IN_POLICIES)}"
            )
            raise BadInput([Problem("--policy", "", "", f"'{name}' is not known{hint}")])
        return checked_policy(Policy(name, BUILT_IN_POLICIES[name], f"the built-in policy {name}"))
    if not name or not given:
        raise BadInput([Problem("--policy", "", "", f"{text!r} is not NAME=FILE")])
    files = tuple(given.split(","))
    configurations = [file for file in files if _is_configuration(file)]
    if len(configurations) > 1:
        message = f"{configurations[0]} is a scheduler configuration too; keep one of the two"
        raise BadInput([Problem(configurations[1], "", "", message)])
    objects = tuple(file for file in files if file not in configurations)
    if not configurations:
        return checked_policy(Policy(name, DEFAULT_CONFIG, "the default configuration", files, objects))
    content = Path(configurations[0]).read_text(encoding="utf-8")
    return checked_policy(Policy(name, content, configurations[0], files, objects))


def checked_policy(policy: Policy) -> Policy:
    """The policy, if its configuration can be used; raises BadInput."""
    try:
        _ = policy.config
    except ConfigError as error:
        raise BadInput([Problem(f"{error.source}:{error.line}", "", "", error.message)]) from None
    return policy


def _is_configuration(file: str) -> bool:
    """Whether a file is a scheduler configuration, and not a stream of objects; raises BadInput."""
    if Path(file).is_dir():
        return False
    try:
        text = Path(file).read_text(encoding="utf-8")
        first = next(iter(yaml.safe_load_all(text)), None)
    except OSError as error:
        raise BadInput([Problem(file, "", "", error.strerror or str(error))]) from None
    except UnicodeDecodeError as error:
        raise BadInput([Problem(file, "", "", f"is not UTF-8 text (byte {error.start})")]) from None
    except yaml.YAMLError as error:
        raise BadInput([Problem(file, "", "", f"not valid YAML: {' '.join(str(error).split())}")]) from None
    return isinstance(first, dict) and "kind" not in first
