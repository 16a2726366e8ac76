"""The OpenAPI documents: their index, and each document as a whole."""

from __future__ import annotations

import hashlib

import msgspec

from kubesim.openapi import components, operations
from kubesim.openapi.swagger import to_swagger
from kubesim.registry.discovery import KUBERNETES, groups, versions
from kubesim.registry.registry import Object, Resource, ResourceRegistry

_encode = msgspec.json.Encoder(order="deterministic").encode


def index(registry: ResourceRegistry) -> Object:
    """The page ``/openapi/v3``: where the documents are. A document that changes gets another address."""
    found = {}
    for group in ["", *groups(registry)]:
        for version in versions(registry, group):
            place = f"apis/{group}/{version}" if group else f"api/{version}"
            address = f"/openapi/v3/{place}?hash={_fingerprint(_resources(registry, group, version))}"
            found[place] = {"serverRelativeURL": address}
    return {"paths": found}


def document(registry: ResourceRegistry, group: str, version: str) -> Object | None:
    """The page ``/openapi/v3/apis/GROUP/VERSION``, or None if there is no such version."""
    found = _resources(registry, group, version)
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


def swagger(registry: ResourceRegistry) -> Object:
    """The page ``/openapi/v2``: everything."""
    found = list(registry)
    return to_swagger(_info(), operations.paths(found), components.schemas(found))


def _resources(registry: ResourceRegistry, group: str, version: str) -> list[Resource]:
    return [resource for resource in registry if resource.group == group and resource.version == version]


def _info() -> Object:
    return {"title": "Kubernetes", "version": ".".join(KUBERNETES)}


def _fingerprint(resources: list[Resource]) -> str:
    """What a document depends on, in short."""
    digest = hashlib.sha256()
    for resource in resources:
        names = [resource.plural, resource.kind, resource.namespaced, resource.verbs, sorted(resource.subresources)]
        digest.update(_encode([names, resource.schema.openapi]))
    return digest.hexdigest().upper()
