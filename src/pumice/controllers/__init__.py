"""Controllers: they reconcile the queues, podgroups, Jobs, JobFlows and CronJobs of a batch cluster.

Controllers talk to any Kubernetes API, embedded or real, through the client of ``kube``. The ``manager`` runs one
informer for each resource, shared by all controllers. Each controller has a ``work_queue`` of keys. Reconciling a key
means to decide from the local copies, in a function without I/O, and to write. A change in between queues the key
again.

Imports ``admission``, ``kube`` and ``model``.
"""

COMPONENT = "pumice-controllers"
"""The source of the Events that controllers write."""
