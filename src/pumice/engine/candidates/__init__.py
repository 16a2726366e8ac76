"""Which unit each job could start next, and whether it can be placed now."""
