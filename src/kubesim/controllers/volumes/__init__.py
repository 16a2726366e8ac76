"""Claims and volumes: binding, a simulated provisioner, reclaiming, and the claims of ephemeral volumes."""
