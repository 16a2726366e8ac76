"""``pumice why``: explains why a job waits, from a snapshot of the cluster or the end of a scenario."""
