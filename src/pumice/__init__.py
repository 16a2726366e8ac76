"""Pumice: a hierarchical fair-share batch scheduler that speaks the Volcano API.

One deterministic engine decides; everything else feeds it events or carries its decisions out::

    events ──► engine ──► decisions

``engine`` is pure code without I/O, clock or randomness; ``model`` describes the objects that events carry. ``kube``
reads and writes Kubernetes objects, ``scheduler`` runs the engine on a cluster, ``sim`` runs it on scenarios in virtual
time, ``cli`` is the command line over all of them.

Importing this package loads no other package, so it costs nothing to ask for the version.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
