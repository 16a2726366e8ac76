"""Commands for people on a cluster: its queues and jobs, looked at and changed, with the verbs of Volcano.

Each command is written once and mounted several times: ``vqueues`` is ``vcctl queue tree`` is ``pumice queue tree``.
They work on any Kubernetes API that has Volcano's objects, as the user and in the context that kubectl would use, and
load nothing but the standard library, click and what decodes a kubeconfig.

``command`` says what such a command is (where the cluster is, how it fails, what its help shows), ``views`` how objects
are printed and followed; ``queues``, ``jobs`` and beside them are the commands.
"""
