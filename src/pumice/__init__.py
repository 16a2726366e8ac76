"""Pumice: a hierarchical fair-share batch scheduler that speaks the Volcano API.

One deterministic engine decides; everything else feeds it events or carries its decisions out::

    events ──► model ──► scheduling ──► decisions
                            │  ▲
                            ▼  │
                          fairness

``model`` keeps the cluster, ``fairness`` says who is owed what, ``scheduling`` turns that into decisions:
together the engine, pure code without I/O, clock or randomness. ``kube`` reads and writes Kubernetes
objects, ``sim`` runs the engine on scenarios in virtual time, ``cli`` is the command line over all of them.

Importing this package loads none of the rooms, so it costs nothing to ask for the version.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
