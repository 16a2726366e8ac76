"""Limits of queues and users: guarantee, capability, deserved, user limits, water-filling."""
