"""The controllers of the group ``apps``: Deployments with their rollouts, and ReplicaSets."""
