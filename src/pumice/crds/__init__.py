"""The custom resource definitions of Pumice, and the queues that every cluster starts with.

``*.yaml`` is what people edit. Programs read the JSON beside it, which ``python -m tools.shipped_json`` writes, because
parsing the YAML would keep a parser in the memory of a server that needs it for nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Object = dict[str, Any]

FOLDER = Path(__file__).parent


def definitions() -> Iterator[Object]:
    """The CustomResourceDefinitions of queues, jobs, podgroups, commands and flows of jobs."""
    yield from _read(FOLDER)


def first_queues() -> Iterator[Object]:
    """The Queue objects of a new cluster: ``root`` and ``default``."""
    yield from _read(FOLDER / "start")


def _read(folder: Path) -> Iterator[Object]:
    for file in sorted(folder.glob("*.json")):
        yield from json.loads(file.read_bytes())
