"""What keeps the objects of a batch cluster true: one file answers one question.

Controllers talk to any Kubernetes API, embedded or real, through the client of ``kube``. Informers follow what they
need to know, once for all of them (``together``); each keeps a list of keys to look at (``keys``). To look at one means
to decide from what is known, as a function without I/O, and to write. Whatever changes in between brings the key back.

Imports ``kube`` and ``model``.
"""

COMPONENT = "pumice-controllers"
"""The source of the Events that controllers write."""
