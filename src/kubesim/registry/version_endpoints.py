"""The endpoints that describe the API: version, discovery, and OpenAPI.

Pages are built on request. Discovery pages are cached until a resource is added or removed; OpenAPI documents are large
and rarely requested, so they are built each time.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubesim.identity import ServerIdentity
from kubesim.registry import discovery
from kubesim.registry.discovery import AGGREGATED, AGGREGATED_VERSIONS
from kubesim.registry.registry import Object, ResourceRegistry

JSON = "application/json"
SWAGGER_PROTOBUF = "application/com.github.proto-openapi.spec.v2"

Page = tuple[bytes, str]
"""A document and its content type."""

_encode = msgspec.json.Encoder().encode


class VersionEndpoints:
    """The pages beside the resources."""

    def __init__(self, registry: ResourceRegistry, identity: ServerIdentity) -> None:
        self._registry = registry
        self._identity = identity
        self._version = -1
        self._pages: dict[tuple[str, str], Page | None] = {}

    def find(self, path: str, accept: str, host: str) -> Page | None:
        """The page at a path in the first form that the client accepts, or None."""
        parts = _parts(path)
        if parts[0] == "openapi":
            return self._openapi(parts, accept)
        if self._version != self._registry.version:
            self._pages, self._version = {}, self._registry.version
        form = _aggregated_version(accept) if parts in (["api"], ["apis"]) else ""
        if (path, form) not in self._pages:
            self._pages[path, form] = self._discovery(parts, form, host)
        return self._pages[path, form]

    def _discovery(self, parts: list[str], form: str, host: str) -> Page | None:
        if form:
            found: Object | None = discovery.aggregated(self._registry, form, core=parts == ["api"])
            return _encode(found), f"{JSON};g={AGGREGATED};v={form};as=APIGroupDiscoveryList"
        match parts:
            case ["version"]:
                found = discovery.version(self._identity)
            case ["api"]:
                found = discovery.core(host)
            case ["apis"]:
                found = discovery.group_list(self._registry)
            case ["api", version]:
                found = discovery.resource_list(self._registry, "", version)
            case ["apis", group]:
                found = discovery.group(self._registry, group)
            case ["apis", group, version]:
                found = discovery.resource_list(self._registry, group, version)
            case [""]:
                found = {
                    "paths": ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]
                }
            case _:
                return None
        return (_encode(found), JSON) if found else None

    def knows(self, path: str) -> bool:
        """Whether a path that leads nowhere is at least among the built-in groups."""
        match _parts(path):
            case ["api" | "openapi", *_]:
                return True
            case ["apis", group, *_]:
                return any(resource.group == group and not resource.custom for resource in self._registry)
        return False

    def _openapi(self, parts: list[str], accept: str) -> Page | None:
        from kubesim import openapi

        if parts == ["openapi", "v2"] and SWAGGER_PROTOBUF in accept and JSON not in accept:
            # kubectl asks when it finds no version 3 for a kind. An empty message is a document that knows no kinds,
            # which is the truth; JSON would only confuse it.
            return b"", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
        match parts:
            case ["openapi", "v2"]:
                found: Object | None = openapi.swagger(self._registry)
            case ["openapi", "v3"]:
                found = openapi.index(self._registry)
            case ["openapi", "v3", "api", version]:
                found = openapi.document(self._registry, "", version)
            case ["openapi", "v3", "apis", group, version]:
                found = openapi.document(self._registry, group, version)
            case _:
                return None
        return (_encode(found), JSON) if found else None


def _parts(path: str) -> list[str]:
    _, *parts = path.split("/")
    return parts[:-1] if len(parts) > 1 and not parts[-1] else parts or ["*"]


def _aggregated_version(accept: str) -> str:
    """Which version of aggregated discovery is wanted before the plain form; none: empty."""
    for part in accept.split(","):
        media, *rest = (piece.strip() for piece in part.split(";"))
        params: dict[str, Any] = dict(piece.split("=", 1) for piece in rest if "=" in piece)
        if media in {JSON, "*/*"}:
            wanted = params.get("g") == AGGREGATED and params.get("as") == "APIGroupDiscoveryList"
            if wanted and params.get("v") in AGGREGATED_VERSIONS:
                return str(params["v"])
            if not params.get("as"):
                return ""
    return ""
