"""The objects of a cluster as immutable descriptions, and the rules about queues that do not need an engine.

``specs`` describes queues, jobs, tasks and nodes; amounts are vectors of integers, one entry per resource. The other
modules answer questions about queues alone: the tree they form (``queue_tree``), the queues that ``spec.hierarchy``
stands for (``queue_expansion``), whether their amounts contradict each other (``queue_amounts``), their states. The
engine, the API client, admission and the controllers share them.

Imports ``kubebase`` only.
"""
