"""The target in whole tasks: rounding, level by level."""
