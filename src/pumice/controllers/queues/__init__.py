"""The queue controller: what is said about queues becomes true.

    spec.hierarchy ──► the queues below it                          (expansion)
    Commands       ──► states, children first                       (commands, states)
    a deletion     ──► all that is in it and below, children first  (clearing)

Those decide from documents, without I/O. ``controller`` knows what there is (``picture``), lets a queue be looked at by
``staying`` or ``leaving``, and these write (``writing``). The cluster as it is decides, never what was seen before:
whatever has to be remembered stands in the objects (annotations, a condition, a finalizer), so that a crash between any
two writes is only a pause.
"""

from __future__ import annotations

from pumice.controllers.queues.controller import Queues

__all__ = ["Queues"]
