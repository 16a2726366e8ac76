"""Which resources are served: ``registry`` holds them, ``discovery`` and ``version_endpoints`` tell clients."""
