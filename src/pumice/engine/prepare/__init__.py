"""The first step of a cycle: process what changed, and bring targets and candidates up to date."""
