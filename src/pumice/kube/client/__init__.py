"""Clients of a Kubernetes API: one for services (``transport``, ``api``), one for commands (``sync_client``)."""
