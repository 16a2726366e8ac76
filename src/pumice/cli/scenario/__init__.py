"""The commands that run scenario files without a cluster: ``pumice run``, ``check``, ``entitle`` and ``demo``."""
