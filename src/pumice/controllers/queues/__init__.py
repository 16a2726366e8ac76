"""The queue controller.

    spec.hierarchy ──► child queues                                  (expansion)
    Commands       ──► states, children first                        (commands, state_sync)
    a deletion     ──► workloads and child queues, children first    (deletion_plan)

These decide from documents, without I/O. ``controller`` keeps the local cache (``queue_cache``) and reconciles a queue
by ``reconcile`` or ``finalize``, which write through ``queue_writer``. Only the current objects decide. State that must
persist is stored in them (annotations, a condition, a finalizer), so that a crash between two writes only delays the
rest.
"""

from __future__ import annotations

from pumice.controllers.queues.controller import QueueController

__all__ = ["QueueController"]
