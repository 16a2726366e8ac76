"""The context: a cycle over the cluster's state that ends in decisions.

Events bring the state up to date, then a cycle runs the configured ``actions`` in order. An action picks
work by the order of the ``plugins`` and of the share tree, finds nodes for it, and tries it inside a
transaction: what holds together is committed and becomes decisions (enqueue, bind, pipeline, evict,
condition), the rest is undone step by step. The shells around the context carry the decisions out and feed
back what came of them.

No I/O, no clock of its own, no threads, no randomness: the same events give the same decisions. Imports
``model`` and ``fairness`` only.
"""
