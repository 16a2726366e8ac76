"""The state of the cluster: jobs, tasks and nodes, kept up to date by events and by the engine's own decisions."""
