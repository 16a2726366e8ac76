"""Simulated nodes: kubelets without machines, all of them played by one task.

A node is an entry in a table, a pod on it a moment at which something is due (``timer_queue``). What comes next in a
pod's life, and when, follows from the pod alone (``pod_lifecycle``): from its status, its restart policy and the
behaviour that its annotations describe (``pod_behavior``). So a restart of this process changes nothing: running pods
go on from where their status says they are.
"""
