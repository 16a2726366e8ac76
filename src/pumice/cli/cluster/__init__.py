"""Commands for the queues and jobs of a cluster, with the verbs of Volcano.

Each command is defined once and mounted several times: ``vqueues`` is ``vcctl queue tree`` is ``pumice queue tree``.
They work on any Kubernetes API that serves Volcano's kinds, with the user and context that kubectl would use, and
import only the standard library, click and the kubeconfig decoder.

``cluster_command`` defines such a command (cluster options, error messages, help with examples), and
``object_printer`` prints and watches objects. ``queue_*``, ``job_*`` and ``flow_*`` are the commands and their tables.
"""
