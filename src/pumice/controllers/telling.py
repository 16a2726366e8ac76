"""Events about objects that are said once.

The name of such an event follows from what it says and about whom. Who says it again, after a crash or because of
another look, finds it there.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import blake2b
from typing import Literal

from pumice.kube.api import Api
from pumice.kube.recorder import LONGEST_MESSAGE, LONGEST_NAME
from pumice.kube.refusals import RefusedError
from pumice.kube.resources import EVENTS, Document

COMPONENT = "pumice-controllers"


def event(about: Document, reason: str, message: str, now: str, kind: Literal["Normal", "Warning"]) -> Document:
    """The event that says something about an object."""
    subject = about["metadata"]
    mark = blake2b("\0".join((subject["uid"], reason, message)).encode(), digest_size=8).hexdigest()
    involved = {"apiVersion": about["apiVersion"], "kind": about["kind"]}
    involved |= {name: subject[name] for name in ("name", "namespace", "uid") if subject.get(name)}
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {
            "name": f"{subject['name'][: LONGEST_NAME - len(mark) - 1]}.{mark}",
            "namespace": subject.get("namespace") or "default",
        },
        "involvedObject": involved,
        "type": kind,
        "reason": reason,
        "message": message[:LONGEST_MESSAGE],
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
    }


async def tell(
    api: Api, about: Document, reason: str, message: str, now: str, kind: Literal["Normal", "Warning"] = "Normal"
) -> None:
    """Say something about an object, once. If the API will not have it, it remains unsaid."""
    with suppress(RefusedError):  # it is there already, or its namespace is going: an event is a courtesy
        await api.create(EVENTS, event(about, reason, message, now, kind))
