"""The integer target: the fluid target rounded to whole tasks, level by level."""
