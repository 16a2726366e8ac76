"""Pumice on the embedded Kubernetes API: what is handed to that server, which knows nothing of Pumice.

``admission`` runs our rules in its write path, ``bootstrap`` creates our kinds and the first queues, and ``cluster``
puts both into the settings of a server.
"""
