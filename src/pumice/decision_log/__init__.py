"""The decision log: every event that the engine received and every decision it made, written, read and replayed.

Imports ``engine`` and ``config``.
"""
