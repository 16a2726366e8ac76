"""What a Pumice cluster has from the start beside its namespaces: our own kinds, two queues,
and the priority classes of Kubernetes itself.

They are files of this package. The definitions are applied at every start: a newer Pumice brings newer ones, and what
somebody changed in them by hand is set right again. The rest is only created where it is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from pumice.apiserver.builtin.priorities import system_classes
from pumice.apiserver.catalogue import Object
from pumice.apiserver.verbs import Api

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
PRIORITIES = "priorityclasses.scheduling.k8s.io"
QUEUES = "queues.scheduling.volcano.sh"


def manifests(folder: str) -> Iterator[Object]:
    """The objects in a folder of this package, as written."""
    for file in sorted((Path(__file__).parent / folder).glob("*.yaml")):
        yield from yaml.load_all(file.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


async def furnish(api: Api) -> None:
    """Create what is missing, and set right what differs."""
    for wanted in manifests("crds"):
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
            await api.create(QUEUES, "", wanted)
