"""The cluster as the engine knows it: resources, queues, jobs, tasks, nodes.

Amounts are vectors of integers, one entry per resource. Descriptions are immutable and say what somebody
asked for; the state holds what follows from them: who holds what, what is idle, what waits. Data passes
one way: an event comes in, the state takes it over and keeps its sums true, and the rooms above read the
state in place. Nothing is copied per cycle, and nothing in here knows why a task should run before
another.

Imports none of the other rooms.
"""
