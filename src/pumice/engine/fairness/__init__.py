"""Who is entitled to what: the share tree, targets, serving orders, limits and preemption rules."""
