"""Basics of the Kubernetes API that scheduler and embedded API server share; imports neither of them.

``quantity``, ``resource_vector`` and ``pod_request`` are exact amounts; ``label_selector`` says which labels a selector
matches, and ``go_regexp`` which texts a pattern matches; ``timestamps`` and ``ages`` write times as objects and tables
show them; ``certificates`` issues TLS certificates; ``field_error`` names a field whose value cannot be used;
``work_queue`` is the queue of a controller; ``cron_schedule`` says when a CronJob is due.
"""
