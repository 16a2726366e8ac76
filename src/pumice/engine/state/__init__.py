"""Engine state of the cluster: jobs, tasks and nodes, updated by events and by the engine's own decisions."""
