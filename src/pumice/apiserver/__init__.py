"""A Kubernetes-compatible API in one process, with simulated nodes, for trying, for tests and for CI.

A request comes in over HTTP (``http``), is read (``requests``) and carried out by a verb (``verbs``), which looks
the resource up in the ``catalogue``, lets its schema and strategy default, prune and check the object, and writes
it to the ``storage``: one log of revisions in SQLite. A write is answered after its commit is on disk, and only
then do readers and watchers see it. Built-in kinds (``builtin``) and custom resources go the same way; they differ
in what their strategies add.

``controllers`` do what kube-controller-manager does where people would miss it (owners, namespaces, jobs),
``nodes`` play the kubelets. Both use the verbs like any client, without the detour over HTTP.

Imports ``kube`` and ``model``.
"""
