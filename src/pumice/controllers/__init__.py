"""What keeps the objects of a batch cluster true: one file answers one question.

Controllers talk to any Kubernetes API, embedded or real, through the client of ``kube``. Each follows what it needs to
know with informers and keeps a list of keys to look at (``keys``); to look at one means to decide from what is known,
as a function without I/O, and to write. Whatever changes in between brings the key back.

Imports ``kube`` and ``model``.
"""
