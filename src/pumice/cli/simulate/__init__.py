"""``pumice simulate``: workloads over virtual time, policies side by side."""
