"""A Kubernetes API server in one process, with controllers and simulated nodes: for tests, CI and trying things.

A request arrives over HTTP (``http``) and is handled by a verb (``api``). The verb looks the resource up in the
``registry``, lets its schema and strategy default, prune and validate the object, and writes it to the ``storage``: one
log of revisions in SQLite. A write is answered after its commit is on disk, and only then do readers and watchers see
it. Built-in kinds (``kinds``) and custom resources are handled alike; they differ in their strategies.

``controllers`` holds the controllers of kube-controller-manager that tests rely on (garbage collection, namespaces,
jobs), ``kubelet`` simulates the kubelets of nodes. Both use the API through ``api.client``, without HTTP.

Imports ``kubebase`` and nothing else of this repository.

``__all__`` is the public API; everything else may change. Its names are loaded on first use, because a server that
imports only what it needs takes less memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubesim.api.admission import AdmissionHook
    from kubesim.api.status import ApiError
    from kubesim.cluster import Cluster

__all__ = ["AdmissionHook", "ApiError", "Cluster", "__version__"]

__version__ = "0.1.0"

_HOMES = {"AdmissionHook": "kubesim.api.admission", "ApiError": "kubesim.api.status", "Cluster": "kubesim.cluster"}


def __getattr__(name: str) -> Any:
    """Load a public name from the module in which it lives."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
