"""The served resources: ``registry`` holds them, ``discovery`` and ``version_endpoints`` describe them to clients."""
