"""The scheduling engine: events in, decisions out. Pure and deterministic; usable as a library.

The packages, in the order of a cycle: ``state`` (the cluster as reported by events), ``fairness`` (the share tree and
the targets), ``prepare`` (brings both up to date), ``candidates`` (the next unit of each job), ``placement`` (the node
for each task), ``preemption`` (evicting victims), ``recovery`` (repairs after a crash or a change of leader),
``actions`` and ``plugins`` (named by the configuration), ``config``, ``checkpoint`` (replacing an engine) and
``explain`` (why a job waits).
"""
