"""Rules about Volcano Jobs: defaults, tasks, policies and updates."""
