"""Rules about Queue objects: defaults, places in the tree, quotas, changes and deletion."""
