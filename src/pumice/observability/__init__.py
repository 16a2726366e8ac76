"""Health and metrics of scheduler, controllers and webhooks: what probes ask and what ``/metrics`` answers.

Imports ``scheduler``, ``controllers``, ``admission`` and what is below them.
"""
