"""The objects that every cluster starts with beside its namespaces: classes, and given definitions.

Definitions are applied at every start, so that a newer release brings newer ones and manual changes to them are
reverted. Priority classes are only created where they are missing, the storage class only where there is none at all.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubesim.api.client import InProcessClient
from kubesim.kinds.custom_resources import QUALIFIED as DEFINITIONS
from kubesim.kinds.priority_classes import system_classes
from kubesim.kinds.storage_classes import DEFAULT_CLASS, STORAGE_CLASSES
from kubesim.registry.registry import Object

PRIORITIES = "priorityclasses.scheduling.k8s.io"


async def create_system_classes(api: InProcessClient) -> None:
    """Create the priority classes of Kubernetes itself where they are missing."""
    for wanted in system_classes():
        if api.read(PRIORITIES, "", wanted["metadata"]["name"]) is None:
            await api.create(PRIORITIES, "", wanted)


async def create_default_storage_class(api: InProcessClient) -> None:
    """Create the storage class of claims that name none, unless the cluster has classes already."""
    if not api.list(STORAGE_CLASSES):
        wanted = {
            "metadata": {"name": "standard", "annotations": {DEFAULT_CLASS: "true"}},
            "provisioner": api.identity.annotation("simulated-volumes"),
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await api.create(STORAGE_CLASSES, "", wanted)


async def apply_definitions(api: InProcessClient, definitions: Iterable[Object]) -> None:
    """Create the CustomResourceDefinitions that are missing, and restore the spec of those that differ."""
    for wanted in definitions:
        name = wanted["metadata"]["name"]
        if api.read(DEFINITIONS, "", name) is None:
            await api.create(DEFINITIONS, "", wanted)
        else:

            def restore(found: Object, spec: Object = wanted["spec"]) -> None:
                found["spec"] = spec

            await api.modify(DEFINITIONS, "", name, restore)
