"""The data model of the engine: resources, queues, jobs, tasks, nodes.

Amounts are vectors of integers, one entry per resource. Specs are immutable and describe what users requested;
``engine.state`` holds what follows from them: usage, idle capacity, pending tasks. Data flows one way: an event
arrives, the state applies it and updates its sums, and the packages above read the state in place. Nothing is copied
per cycle, and nothing in here knows why a task should run before another.

Imports none of the other packages.
"""
