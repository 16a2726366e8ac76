"""Pumice on the embedded Kubernetes API: the admission hook, CRDs and first queues that kubesim gets from Pumice.

``admission_hook`` runs the admission rules in the write path of the server, ``bootstrap`` creates the CRDs and the
first queues, and ``embedded_cluster`` adds both to the settings of a server. kubesim itself does not know Pumice.
"""
