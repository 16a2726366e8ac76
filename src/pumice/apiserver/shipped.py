"""What a Pumice cluster has from the start beside its namespaces: our own kinds, two queues,
and the priority classes of Kubernetes itself.

They are files of this package, written as YAML and read as the JSON beside it (``python -m tools.shipped_json`` makes
it), so that no YAML parser stays in a server that needs it for nothing else. The definitions are applied at every
start: a newer Pumice brings newer ones, and what somebody changed in them by hand is set right again. The rest is only
created where it is missing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

from pumice.admission import QUEUE_FINALIZER
from pumice.apiserver.builtin.priorities import system_classes
from pumice.apiserver.catalogue import Object
from pumice.apiserver.schema.patterns import assume_valid, patterns_of
from pumice.apiserver.status import ApiError
from pumice.apiserver.verbs import Api

log = logging.getLogger(__name__)

PLACE = Path(__file__).parent
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
PRIORITIES = "priorityclasses.scheduling.k8s.io"
QUEUES = "queues.scheduling.volcano.sh"


def manifests(folder: str) -> Iterator[Object]:
    """The objects in a folder of this package, as written."""
    for file in sorted((PLACE / folder).glob("*.json")):
        yield from json.loads(file.read_bytes())


async def furnish(api: Api) -> None:
    """Create what is missing, and set right what differs."""
    for wanted in manifests("crds"):
        # The tests compile these patterns, so a server that nobody asks for anything does without the library.
        assume_valid(patterns_of(wanted))
        name = wanted["metadata"]["name"]
        if api.read(DEFINITIONS, "", name) is None:
            await api.create(DEFINITIONS, "", wanted)
        else:

            def restore(found: Object, spec: Object = wanted["spec"]) -> None:
                found["spec"] = spec

            await api.modify(DEFINITIONS, "", name, restore)
    for wanted in system_classes():
        if api.read(PRIORITIES, "", wanted["metadata"]["name"]) is None:
            await api.create(PRIORITIES, "", wanted)
    for wanted in manifests("crds/start"):
        if api.read(QUEUES, "", wanted["metadata"]["name"]) is None:
            applied = json.dumps(wanted)  # as if by kubectl apply, so that it finds nothing strange in going on
            wanted["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": applied}
            try:
                await api.create(QUEUES, "", wanted)
            except ApiError as error:  # older data may have no place for it; that is no reason not to start
                log.warning("queue %s is missing and cannot be made: %s", wanted["metadata"]["name"], error.message)


async def settle_finalizers(api: Api, finalizer: str) -> None:
    """Let queues wait, when they are deleted, for a controller that is there, and for none that is not.

    Those that are being deleted already stay as they are: somebody was at work on what is below them.
    """
    for queue in api.list(QUEUES):
        about = queue["metadata"]
        kept = [*(about.get("finalizers") or ())]
        wanted = [name for name in kept if name != QUEUE_FINALIZER] + ([finalizer] if finalizer else [])
        if "deletionTimestamp" in about or sorted(kept) == sorted(wanted):
            continue

        def settle(found: Object, wanted: list[str] = wanted) -> None:
            found["metadata"]["finalizers"] = wanted

        await api.modify(QUEUES, "", about["name"], settle)
