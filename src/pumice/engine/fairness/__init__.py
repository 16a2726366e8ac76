"""Fair sharing: the share tree, fluid and integer targets, serving orders, limits and preemption rules."""
