"""Looking back: the cluster at a time of the past, and the life of a job, from a decision log."""
