"""The scheduling engine: events in, decisions out. Pure and deterministic; usable as a library.

The folders, in the order of a cycle: ``state`` (what events add up to), ``fairness`` (who is entitled to what),
``prepare`` (bring both up to date), ``candidates`` (what each job could start next), ``placement`` (on which node),
``preemption`` (who makes room), ``recovery`` (what a crash or a lost leader left behind), ``actions`` and ``plugins``
(what a configuration names), ``config``, ``checkpoint`` (replace an engine) and ``explain`` (why a job waits).
"""
