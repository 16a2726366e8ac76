"""Commands: whom each is for, and in which order they count.

A server's clock has seconds, and two commands may come within one. Then the revision says which came first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pumice.kube.resources import Document, Resource


def is_for(command: Document, resource: Resource[Any]) -> bool:
    """Whether a command is for an object of this kind, in whatever version of its API."""
    target = command.get("target") or {}
    group = str(target.get("apiVersion") or "").partition("/")[0]
    return target.get("kind") == resource.kind and group == resource.api_version.partition("/")[0]


def in_order(commands: Iterable[Document]) -> list[Document]:
    """Commands, the oldest first."""
    return sorted(commands, key=_age)


def _age(command: Document) -> tuple[str, int, str]:
    about = command["metadata"]
    revision = str(about.get("resourceVersion") or "")
    return about.get("creationTimestamp") or "", int(revision) if revision.isdecimal() else 0, about["name"]
