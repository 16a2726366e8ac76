"""Nodes of a simulated cluster that no manifest describes: ``550:cpu=64,nvidia.com/gpu=8``, or a table of groups."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kubebase.field_error import FieldError
from kubebase.resource_vector import Registry, ResourceError, milli_amounts
from pumice.input_errors import BadInput, Problem
from pumice.model.specs import NodeSpec
from pumice.simulate.formats.rows import whole
from pumice.simulate.formats.tables import GPU

PODS_PER_NODE = 110
MOST_NODES = 1_000_000
_GROUP = re.compile(r"(?P<count>\d+):(?P<amounts>.+)")
_TABLE = ("name", "cpu_milli", "mem_mib", "gpu", "model", "count")


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Equal nodes."""

    name: str
    count: int
    amounts: tuple[tuple[str, int], ...]  # in milli
    model: str = ""

    def nodes(self, registry: Registry) -> Iterator[NodeSpec]:
        """The nodes, by name in the order of their numbers."""
        vector = registry.vector_of_milli({"pods": PODS_PER_NODE * 1000} | dict(self.amounts))
        digits = len(str(self.count - 1))
        for number in range(self.count):
            name = f"{self.name}-{number:0{digits}d}"
            labels = {"kubernetes.io/hostname": name} | ({"gpu-model": self.model} if self.model else {})
            yield NodeSpec(name, vector, labels=labels)


def read_node_groups(text: str, position: int) -> list[NodeGroup]:
    """The groups of one ``--nodes``; raises BadInput."""
    if Path(text).is_file():
        return _read_table(text)
    try:
        return [_parsed(text, f"n{position}")]
    except (FieldError, ResourceError) as error:
        raise BadInput([Problem("--nodes", "", "", str(error))]) from None


def _parsed(text: str, name: str) -> NodeGroup:
    match = _GROUP.fullmatch(text)
    if match is None:
        raise FieldError("", f"{text!r} is neither a file nor like 550:cpu=64,nvidia.com/gpu=8")
    amounts: dict[str, str] = {}
    for part in match["amounts"].split(","):
        resource, equals, amount = part.partition("=")
        if not equals or resource in amounts:
            problem = "is there twice" if equals else "is not RESOURCE=QUANTITY"
            raise FieldError("", f"{text!r}: {part!r} {problem}")
        amounts[resource] = amount
    count = int(match["count"])
    if not 1 <= count <= MOST_NODES:
        raise FieldError("", f"{text!r}: the number of nodes must be from 1 to {MOST_NODES}")
    return NodeGroup(name, count, tuple(sorted(milli_amounts(amounts, where=text).items())))


def _read_table(path: str) -> list[NodeGroup]:
    """Groups of a table with the columns name, cpu_milli, mem_mib, gpu, model, count."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            missing = [name for name in _TABLE if name not in (reader.fieldnames or ())]
            if missing:
                raise FieldError(missing[0], f"column is missing; the columns are {', '.join(_TABLE)}")
            groups = [_row_group(row) for row in reader]
    except OSError as error:
        raise BadInput([Problem(path, "", "", error.strerror or str(error))]) from None
    except UnicodeDecodeError as error:
        raise BadInput([Problem(path, "", "", f"is not UTF-8 text (byte {error.start})")]) from None
    except csv.Error as error:
        raise BadInput([Problem(f"{path}:{reader.line_num}", "", "", f"is not CSV: {error}")]) from None
    except FieldError as error:
        raise BadInput([Problem(f"{path}:{reader.line_num or 1}", "", error.field, error.message)]) from None
    if not groups:
        raise BadInput([Problem(path, "", "", "contains no node")])
    return groups


def _row_group(row: dict[str, str]) -> NodeGroup:
    if None in row.values() or None in row:
        raise FieldError("", f"the line must have {len(_TABLE)} fields")
    amounts = {
        "cpu": whole(row["cpu_milli"], "cpu_milli"),
        "memory": whole(row["mem_mib"], "mem_mib") * 2**20 * 1000,
        GPU: whole(row["gpu"], "gpu") * 1000,
    }
    present = tuple(sorted((name, amount) for name, amount in amounts.items() if amount))
    return NodeGroup(row["name"], whole(row["count"], "count", least=1), present, row["model"])
