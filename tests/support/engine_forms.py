"""Marks for tests that can run on one form of the engine only (see CONTRIBUTING.md, The compiled engine)."""

from __future__ import annotations

import pytest

from pumice.cli.engine_form import engine_form

counts_calls = pytest.mark.skipif(
    engine_form() != "pure Python", reason="counts calls by replacing names, which compiled callers do not look up"
)
