"""The scheduler as a service: it watches a cluster, lets the engine decide, and carries the decisions out.

Changes of the cluster come in through informers and become events of the engine (``mirror``). Once in a while, when
something has changed, the engine runs a cycle; its decisions become bindings, evictions and status (``hands``), each
of which comes back as a change. Until it does the mirror shows the engine what it has decided, not what an older
message says: a decision is assumed, then confirmed, or forgotten if the cluster refuses it. ``scheduler`` is the loop
that holds it together.

Imports ``scheduling`` and ``kube``.
"""
