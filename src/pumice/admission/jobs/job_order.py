"""The order of jobs: the annotation ``pumice.dev/after`` names the jobs that a job starts after.

``a,any:b``: after job a of the same namespace has completed, and job b has ended in whatever way. The controller does
not create the podgroup before, so a waiting job asks for nothing in its queue. If a did not complete, the job fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pumice.admission.cluster_view import ClusterView
from pumice.admission.jobs.job_tasks import LABEL
from pumice.admission.request import Refusal, Request, annotations_of, metadata_of

AFTER: Final = "pumice.dev/after"
ANY, OK = "any", "ok"


class OrderError(ValueError):
    """A text does not name jobs."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """A job that another one starts after."""

    name: str
    must_complete: bool = True
    """Whether it has to complete; otherwise it has to end."""

    def __str__(self) -> str:
        return self.name if self.must_complete else f"{ANY}:{self.name}"


def parse_after(text: str) -> tuple[Upstream, ...]:
    """Parse ``a,any:b``. ``OrderError`` if the text has another form."""
    found = []
    for part in text.replace(" ", "").split(","):
        kind, colon, name = part.rpartition(":")
        if colon and kind not in (ANY, OK):
            raise OrderError(f"{part!r}: JOB or any:JOB is needed")
        if not all(LABEL.fullmatch(piece) for piece in name.split(".")):
            raise OrderError(f"{name!r} is not the name of a job")
        found.append(Upstream(name, kind != ANY))
    return tuple(found)


def order_is_sound(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """The annotation names other jobs."""
    text = annotations_of(request.object).get(AFTER)
    if text is None:
        return
    where = f"metadata.annotations[{AFTER}]"
    try:
        upstreams = parse_after(text)
    except OrderError as error:
        yield Refusal(f"Invalid value: {error}", where)
        return
    if metadata_of(request.object).get("name") in {upstream.name for upstream in upstreams}:
        yield Refusal(f"Invalid value: {text!r}: a job cannot start after itself", where)


RULES = (order_is_sound,)
