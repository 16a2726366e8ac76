"""The metrics of each program, one module for each subject."""
