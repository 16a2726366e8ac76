"""Formats of workload files: each reads lines of text and yields jobs, skipped lines and problems."""
