"""The difference between two documents, as a merge patch."""

from __future__ import annotations

from pumice.kube.resources import Document


def merge_patch(old: Document, new: Document) -> Document:
    """The merge patch that turns one document into another; empty: they are equal."""
    patch: Document = {name: None for name in old if name not in new}
    for name, value in new.items():
        there = old.get(name)
        if isinstance(value, dict) and isinstance(there, dict):
            if below := merge_patch(there, value):
                patch[name] = below
        elif name not in old or value != there:
            patch[name] = value
    return patch
