"""Which volume a claim gets: pure functions of claims and volumes."""

from __future__ import annotations

from collections.abc import Iterable

from kubebase.label_selector import matches
from kubebase.quantity import parse
from kubesim.kinds.persistent_volumes import requested_storage, storage_class_name
from kubesim.registry.registry import Object


def is_reserved_for(volume: Object, claim: Object) -> bool:
    """Whether the claimRef of a volume names this claim. A uid that is missing there matches every claim."""
    reference = volume["spec"].get("claimRef")
    about = claim["metadata"]
    return bool(
        reference
        and reference.get("name") == about["name"]
        and reference.get("namespace") == about["namespace"]
        and reference.get("uid", "") in ("", about["uid"])
    )


def fits(volume: Object, claim: Object) -> bool:
    """Whether a volume has the class, mode, access modes, labels and capacity that a claim asks for."""
    has, asks = volume["spec"], claim["spec"]
    return (
        storage_class_name(volume) == storage_class_name(claim)
        and has.get("volumeMode") == asks.get("volumeMode")
        and set(asks.get("accessModes") or ()) <= set(has.get("accessModes") or ())
        and matches(asks.get("selector") or {}, volume["metadata"].get("labels") or {})
        and volume_size(volume) >= requested_storage(claim)
    )


def best_volume(volumes: Iterable[Object], claim: Object, *, reserved_only: bool = False) -> Object | None:
    """The volume for a claim: one that is reserved for it, else the smallest that fits.

    ``reserved_only``: a claim that waits for its first consumer takes no other volume, because the scheduler chooses.
    """
    usable = [volume for volume in volumes if "deletionTimestamp" not in volume["metadata"]]
    reserved = [volume for volume in usable if is_reserved_for(volume, claim)]
    if reserved or reserved_only:
        return min(reserved, key=_by_size, default=None)
    free = [volume for volume in usable if not volume["spec"].get("claimRef") and fits(volume, claim)]
    return min(free, key=_by_size, default=None)


def volume_size(volume: Object) -> int:
    """The capacity of a volume in bytes."""
    return parse(volume["spec"]["capacity"]["storage"]).value()


def _by_size(volume: Object) -> tuple[int, str]:
    return volume_size(volume), volume["metadata"]["name"]
