"""Choosing a node for each task: the node table, reservations, and tasks pipelined to a node that is being freed."""
