"""Manifests in a file on the command line: objects of one kind, in a YAML stream that may contain lists."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

from pumice.cli.cluster.cluster_command import InvalidInput

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Document
    from pumice.kube.resources import Resource


def read_manifests(file: IO[str], resource: Resource[Any], namespace: str) -> list[Document]:
    """The objects of a resource in a file, at least one; all in ``namespace`` if it is set."""
    import yaml

    try:
        documents = [document for document in yaml.safe_load_all(file) if document is not None]
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file.name}: invalid YAML: {' '.join(str(error).split())}") from None
    found: list[Document] = []
    for document in documents:
        listed = document.get("items") if isinstance(document, dict) and document.get("kind") == "List" else None
        found += listed if isinstance(listed, list) else [document]
    for i, manifest in enumerate(found):
        _check_manifest(manifest, resource, namespace, f"{file.name}: document {i + 1}")
    if not found:
        raise InvalidInput(f"{file.name}: no {resource.kind} found")
    return found


def _check_manifest(manifest: object, resource: Resource[Any], namespace: str, where: str) -> None:
    fields = manifest if isinstance(manifest, dict) else {}
    kind = (fields.get("apiVersion"), fields.get("kind"))
    if kind != (resource.api_version, resource.kind):
        given = " ".join(str(part) for part in kind if part) or "no object"
        raise InvalidInput(
            f"{where}: {given} is not a {resource.kind} of {resource.api_version}; use kubectl apply for other objects"
        )
    named = (fields.get("metadata") or {}).get("namespace") or namespace
    if namespace and named != namespace:
        raise InvalidInput(f"{where}: metadata.namespace {named} does not match --namespace {namespace}")
