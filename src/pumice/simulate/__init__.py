"""Workloads over virtual time through the engine, under one policy or several.

A workload file is read job by job, and the engine decides on a cluster of simulated nodes, event by event::

    formats ──► workload_file ──► virtual_cluster ──► recorder ──► report
    (rows)      (WorkloadJob)     (Engine, timers)    (figures)    (values, jobs.csv, report.html)
                     ▲
    cluster_spec, policies, workload_queues

Nothing happens between two events, so nothing is computed there: jobs arrive, tasks end, evicted tasks terminate, and
the engine says when a patience or cooldown ends. ``virtual_cluster`` and ``recorder`` are pure; ``formats`` and
``report`` know files. ``simulation_run`` puts one run together, in any process.

Memory grows with the jobs that are live: the workload is streamed twice (once to check all of it before anything runs),
waiting times are counted in histograms, and time series have a fixed number of points.
"""
