"""Simulated nodes: kubelets without machines, all run by one task.

A node is an entry in a table; a pod on it is a timer (``timer_queue``). The next step of a pod, and its time, follow
from the pod alone (``pod_lifecycle``): from its status, its restart policy and the behaviour that its annotations
describe (``pod_behavior``). A restart of this process therefore changes nothing: running pods continue from the state
that their status shows.
"""
