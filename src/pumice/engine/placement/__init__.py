"""On which node a task goes: the node table, reservations, and tasks that wait for a node to be freed."""
