"""The objects that Pumice adds to a new cluster: its CRDs, the first queues, and the finalizer of queues."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

from kubebase.go_regexp import assume_valid, patterns_of
from kubesim.api.client import InProcessClient
from kubesim.api.status import ApiError
from kubesim.bootstrap import apply_definitions
from kubesim.registry.registry import Object
from pumice import crds
from pumice.admission import QUEUE_FINALIZER

log = logging.getLogger(__name__)

QUEUES = "queues.scheduling.volcano.sh"


async def create_first_objects(api: InProcessClient) -> None:
    """Apply the CRDs, and create the first queues that are missing."""
    await apply_definitions(api, _definitions())
    for wanted in crds.first_queues():
        if api.read(QUEUES, "", wanted["metadata"]["name"]) is None:
            applied = json.dumps(wanted)  # as if by kubectl apply, so that a later kubectl apply finds its annotation
            wanted["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": applied}
            try:
                await api.create(QUEUES, "", wanted)
            except ApiError as error:  # older data may have no place for it; that is no reason not to start
                log.warning("queue %s is missing and cannot be made: %s", wanted["metadata"]["name"], error.message)


def _definitions() -> Iterator[Object]:
    """The CRDs. Tests compile their patterns, so that an idle server does not have to import re2."""
    for definition in crds.definitions():
        assume_valid(patterns_of(definition))
        yield definition


async def set_queue_finalizers(api: InProcessClient, finalizer: str) -> None:
    """Set ``finalizer`` on all queues, or remove it from all of them where it is empty.

    A queue that is deleted then waits for the controllers that are there, and for none that are not. Queues that are
    being deleted already stay as they are: a controller was at work on what is below them.
    """
    for queue in api.list(QUEUES):
        about = queue["metadata"]
        kept = [*(about.get("finalizers") or ())]
        wanted = [name for name in kept if name != QUEUE_FINALIZER] + ([finalizer] if finalizer else [])
        if "deletionTimestamp" in about or sorted(kept) == sorted(wanted):
            continue

        def settle(found: Object, wanted: list[str] = wanted) -> None:
            found["metadata"]["finalizers"] = wanted

        try:
            await api.modify(QUEUES, "", about["name"], settle)
        except ApiError as error:  # one queue that cannot be changed is no reason not to start
            log.error("The finalizers of queue %s cannot be set: %s", about["name"], error.message)
