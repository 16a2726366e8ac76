"""Jobs of a script on nodes that run pods as processes: a name from the command, where the user stands, with what set.

A cluster with such nodes (``pumice agent``) shares users, files and programs with whoever submits, so ``vsub --
./train.sh`` can mean what it means in a shell. Elsewhere containers have files of their own, and nothing is assumed.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False  # as in job_manifest
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from pumice.cli.cluster.cluster_command import Cluster

HOST_IMAGE = "host"
PROCESS_LABEL = {"pumice.dev/runtime": "process"}
"""The label of nodes that run pods as processes."""
OWN_VARIABLES = ("_", "SHLVL", "PWD", "OLDPWD", "KUBECONFIG", "HOSTNAME")
"""Variables that belong to the shell of the user, not to what it starts elsewhere."""
LONGEST_STEM = 40
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def has_process_nodes(cluster: Cluster) -> bool:
    """Whether the cluster has nodes that run pods as processes; no, if the user may not list nodes."""
    from pumice.cli.cluster.denied_lists import list_if_allowed
    from pumice.kube.resource_name import NODE

    return any_runs_processes(list_if_allowed(cluster.client, NODE.path()) or ())


def any_runs_processes(nodes: Iterable[Mapping[str, Any]]) -> bool:
    """Whether one of these nodes runs pods as processes."""
    return any(
        ((node.get("metadata") or {}).get("labels") or {}).get(key) == value
        for node in nodes
        for key, value in PROCESS_LABEL.items()
    )


def generated_name(command: Sequence[str]) -> str:
    """A name for a job that has none: that of its program, and a few letters that make it unique."""
    program = os.path.splitext(os.path.basename(command[0].rstrip("/")))[0]
    stem = re.sub(r"[^a-z0-9]+", "-", program.lower()).strip("-")[:LONGEST_STEM].strip("-")
    suffix = "".join(SUFFIX_LETTERS[number % len(SUFFIX_LETTERS)] for number in os.urandom(5))
    return f"{stem if stem[:1].isalpha() else 'job'}-{suffix}"


def as_process(given: Mapping[str, Any], command: Sequence[str], *, clean: bool) -> dict[str, Any]:
    """The options of a job that runs here: literal words, this folder, this environment unless ``clean``."""
    inherited = (
        {} if clean else {name: _literal(os.environ[name]) for name in passed_variables() if is_text(os.environ[name])}
    )
    return {
        **given,
        "image": HOST_IMAGE,
        "command": [_literal(word) for word in command],
        "folder": os.getcwd(),
        "env": inherited | given["env"],
        "node_selector": {**PROCESS_LABEL, **given["node_selector"]},
    }


def passed_variables() -> list[str]:
    """The names of the variables that a job gets from whoever submits it."""
    return [name for name in os.environ if _is_passed_on(name)]


def is_text(value: str) -> bool:
    """Whether a value can be in a Job: objects of the API are text, and bytes that are no UTF-8 are none."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_passed_on(name: str) -> bool:
    return name not in OWN_VARIABLES and not name.startswith("PUMICE_") and name.isprintable() and "%" not in name


def _literal(text: str) -> str:
    """A text in which no ``$(NAME)`` is replaced."""
    return text.replace("$", "$$")
