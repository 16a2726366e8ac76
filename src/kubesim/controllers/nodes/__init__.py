"""The node lifecycle controller: readiness of nodes, taints that follow from it, and pods that they evict."""
