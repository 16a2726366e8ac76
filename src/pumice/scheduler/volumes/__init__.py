"""Volumes of pods in scheduling, as kube-scheduler's plugins for volumes do it.

``storage_view`` holds the storage objects of the cluster, ``volume_plan`` decides how the claims of a pod get volumes
on a node, ``volume_demand`` says the same of all nodes at once for the engine, ``volume_cache`` keeps both up to date,
and ``volume_binder`` carries a plan out before the pod is bound.
"""
