"""The audit of a decision log: whether what a scheduler decided was right, recomputed without the engine.

``log_reader`` reads the files and checks the hashes of their lines. ``ledger`` follows events and decisions: which
task is where, and what every queue holds. After each cycle ``bind_rules``, ``eviction_rules`` and ``follow_up`` hold
the decisions of the cycle against the rules, and ``shortfall`` adds up by how much queues were below their entitlement,
and why. ``entitlement`` computes entitlements anew, as a fluid in exact fractions. ``certificate`` runs all of it.

This package may not import the engine: it shares the descriptions of objects (``model``) and nothing else.
"""
