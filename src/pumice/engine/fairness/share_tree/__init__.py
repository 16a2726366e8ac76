"""The share tree: usage, demand and entitlement of queues, namespaces and jobs."""
