"""The documents: which there are, and each of them as a whole."""

from __future__ import annotations

import hashlib

import msgspec

from pumice.apiserver.catalogue import Catalogue, Object, Resource
from pumice.apiserver.discovery import KUBERNETES, groups, versions
from pumice.apiserver.openapi import components, operations
from pumice.apiserver.openapi.swagger import to_swagger

_encode = msgspec.json.Encoder(order="deterministic").encode


def index(catalogue: Catalogue) -> Object:
    """The page ``/openapi/v3``: where the documents are. A document that changes gets another address."""
    found = {}
    for group in ["", *groups(catalogue)]:
        for version in versions(catalogue, group):
            place = f"apis/{group}/{version}" if group else f"api/{version}"
            address = f"/openapi/v3/{place}?hash={_fingerprint(_resources(catalogue, group, version))}"
            found[place] = {"serverRelativeURL": address}
    return {"paths": found}


def document(catalogue: Catalogue, group: str, version: str) -> Object | None:
    """The page ``/openapi/v3/apis/GROUP/VERSION``, or None if there is no such version."""
    found = _resources(catalogue, group, version)
    if not found:
        return None
    return {
        "openapi": "3.0.0",
        "info": _info(),
        "paths": operations.paths(found),
        "components": {
            "schemas": components.schemas(found),
            "securitySchemes": {"BearerToken": {"type": "http", "scheme": "bearer"}},
        },
    }


def swagger(catalogue: Catalogue) -> Object:
    """The page ``/openapi/v2``: everything."""
    found = list(catalogue)
    return to_swagger(_info(), operations.paths(found), components.schemas(found))


def _resources(catalogue: Catalogue, group: str, version: str) -> list[Resource]:
    return [resource for resource in catalogue if resource.group == group and resource.version == version]


def _info() -> Object:
    return {"title": "Kubernetes", "version": ".".join(KUBERNETES)}


def _fingerprint(resources: list[Resource]) -> str:
    """What a document depends on, in short."""
    digest = hashlib.sha256()
    for resource in resources:
        names = [resource.plural, resource.kind, resource.namespaced, resource.verbs, sorted(resource.subresources)]
        digest.update(_encode([names, resource.schema.openapi]))
    return digest.hexdigest().upper()
