"""How often the collector runs in processes that live long."""

from __future__ import annotations

import gc

from pumice.cli.garbage_collection import collect_rarely


def test_a_long_lived_process_collects_rarely_but_does() -> None:
    before = gc.get_threshold()
    try:
        collect_rarely()
        assert gc.isenabled() and all(now > then for now, then in zip(gc.get_threshold(), before, strict=True))
    finally:
        gc.set_threshold(*before)
