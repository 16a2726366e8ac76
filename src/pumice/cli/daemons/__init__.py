"""Commands that run until stopped: ``pumice scheduler``, ``pumice controllers`` and ``pumice webhooks``."""
