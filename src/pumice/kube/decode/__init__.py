"""Kubernetes objects become descriptions of the model: typed structs, checks, conversion."""
