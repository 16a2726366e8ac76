"""Job arrays: one task whose pods have indexes that the user chose, of which a limited number is active at a time.

The annotation ``pumice.dev/array`` of a Job has the notation of ``sbatch --array``: ``1-100%10`` are the indexes 1 to
100, ten pods at a time; ``1-9:2,20`` are 1, 3, 5, 7, 9 and 20. The controller gives each pod its index, and creates a
pod only while fewer than the limit exist that have not finished.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pumice.admission.cluster_view import ClusterView
from pumice.admission.request import Refusal, Request, annotations_of, spec_of

ARRAY: Final = "pumice.dev/array"
MOST_PODS: Final = 10_000
LARGEST_INDEX: Final = 10_000_000
_PART = re.compile(r"(\d{1,8})(?:-(\d{1,8})(?::(\d{1,8}))?)?")


class ArrayError(ValueError):
    """A text does not describe a job array."""


@dataclass(frozen=True, slots=True)
class JobArray:
    """The indexes of a job array, in ascending order."""

    indexes: tuple[int, ...]
    limit: int = 0
    """How many of its pods may be active at a time; 0: all."""


def parse_array(text: str) -> JobArray:
    """Parse ``1-100%10``, ``1-9:2,20``. ``ArrayError`` if the text has another form."""
    parts, percent, limit = text.replace(" ", "").partition("%")
    if percent and not (limit.isdecimal() and 0 < int(limit) <= LARGEST_INDEX):
        raise ArrayError(f"{text!r}: a number of pods greater than 0 must follow %")
    found: set[int] = set()
    for part in parts.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ArrayError(f"{text!r}: indexes such as 1-100, 1-9:2 or 3,5,8 are needed, optionally followed by %N")
        first = int(match[1])
        last, step = int(match[2] or first), int(match[3] or 1)
        if last < first or not step:
            raise ArrayError(f"{text!r}: {part} contains no index")
        if last > LARGEST_INDEX:
            raise ArrayError(f"{text!r}: an index is at most {LARGEST_INDEX:,}")
        indexes = range(first, last + 1, step)
        if len(found) + len(indexes) > MOST_PODS:
            raise ArrayError(f"{text!r}: a job array has at most {MOST_PODS:,} pods")
        found.update(indexes)
    return JobArray(tuple(sorted(found)), int(limit) if percent else 0)


def array_fits_the_task(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """The annotation can be parsed, and the job has one task with a pod for each index."""
    text = annotations_of(request.object).get(ARRAY)
    where = f"metadata.annotations[{ARRAY}]"
    if request.old is not None and annotations_of(request.old).get(ARRAY) != text:
        yield Refusal(f"Invalid value: {text!r}: the indexes of a job cannot be changed", where)
    if text is None:
        return
    try:
        array = parse_array(text)
    except ArrayError as error:
        yield Refusal(f"Invalid value: {error}", where)
        return
    tasks = spec_of(request.object).get("tasks") or ()
    replicas = [task.get("replicas", 1) for task in tasks]
    if replicas != [len(array.indexes)]:
        yield Refusal(
            f"Invalid value: {text!r}: a job array has one task with a replica for each of its {len(array.indexes)} "
            f"indexes, but the tasks have {', '.join(map(str, replicas)) or 'no'} replicas",
            where,
        )
    if (spec_of(request.object).get("minAvailable") or 0) > array.limit > 0:
        yield Refusal(f"Invalid value: {text!r}: spec.minAvailable pods could never be active together", where)


RULES = (array_fits_the_task,)
