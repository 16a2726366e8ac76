"""The history of queues: usage, entitlement and waiting work over time, in a small SQLite file.

The scheduler records it (``recorder``), and whoever can read the file, or reach the scheduler's endpoint, reads it
(``reader``). It is for charts: a point is the mean of a step, and old points have longer steps.
"""
