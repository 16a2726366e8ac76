"""The first step of a cycle: follow up on what changed, and bring targets and candidates up to date."""
