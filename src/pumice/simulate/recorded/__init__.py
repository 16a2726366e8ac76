"""A decision log as a workload: what came from outside happens again when it happened, what followed from decisions
follows from the decisions of the simulation.

    recorded_cycles ──►  history  ──►  recorded_cluster  ──►  recorder
    (decision log)       (scripts)     (Engine, timers)
"""
