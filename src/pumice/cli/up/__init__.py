"""``pumice up``: a whole cluster on this machine, and the supervisor of its processes."""
