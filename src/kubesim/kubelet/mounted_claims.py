"""Whether the volumes of a pod can be mounted: a kubelet starts no pod before all of its claims are bound."""

from __future__ import annotations

from collections.abc import Iterator

from kubesim.api.client import InProcessClient
from kubesim.registry.registry import Object


def unmounted_claim(api: InProcessClient, pod: Object) -> str:
    """Why a volume of a pod cannot be mounted; empty if all can."""
    for volume, claim in claims_of(pod):
        found = api.read("persistentvolumeclaims", pod["metadata"]["namespace"], claim)
        if found is None:
            return f'MountVolume.SetUp failed for volume "{volume}": persistentvolumeclaim "{claim}" not found'
        if (found.get("status") or {}).get("phase") != "Bound":
            return f'MountVolume.SetUp failed for volume "{volume}": PersistentVolumeClaim {claim} is not bound'
    return ""


def claims_of(pod: Object) -> Iterator[tuple[str, str]]:
    """The volumes of a pod that are claims, with the names of the claims."""
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield volume["name"], volume["persistentVolumeClaim"]["claimName"]
        elif "ephemeral" in volume:
            yield volume["name"], f"{pod['metadata']['name']}-{volume['name']}"
