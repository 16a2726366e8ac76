"""The scheduler process: it watches a cluster, runs the engine, and writes the decisions to the cluster.

Informers report changes of the cluster; ``cluster_cache`` turns them into events of the engine. After a change the
engine runs a cycle. ``binder`` writes its decisions as bindings, evictions and status, and each write comes back as a
change. Until then the cache reports the decision as made, whatever older watch events say: a decision is assumed, then
confirmed, or forgotten if the API rejects it. ``loop`` connects these parts.

Imports ``engine``, ``kube``, ``config`` and ``decision_log``.
"""
