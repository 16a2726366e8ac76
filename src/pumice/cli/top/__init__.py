"""``pumice top``: the usage of all queues, printed once or drawn live."""
