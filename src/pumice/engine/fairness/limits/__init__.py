"""What queues and users may hold: guarantee, capability, deserved, user limits, water-filling."""
