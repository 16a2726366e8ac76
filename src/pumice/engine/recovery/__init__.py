"""Repairs after a crash, a failed bind, or a late write of a former leader."""
