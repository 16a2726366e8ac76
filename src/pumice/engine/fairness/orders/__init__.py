"""Serving orders: which job is served next."""
