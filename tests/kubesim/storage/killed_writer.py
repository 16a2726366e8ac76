"""Writes as fast as it can and reports on standard output what was acknowledged, until somebody kills it.

    killed_writer.py DIRECTORY SEED

Each line: the revision, the key, what it was before, and whether the write was a deletion.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

from kubesim.storage import Store
from tests.kubesim.storage.store_helpers import encoder

WRITERS = 16
KEYS = 40
reported = [0]


async def write(store: Store, generator: random.Random, writer: int) -> None:
    """Create, change and delete; every writer has keys of its own."""
    padding = "x" * 1200
    while True:
        key = f"pods/n{writer}/{generator.randrange(KEYS)}"
        latest = store.latest(key)
        before = latest.revision if latest else 0
        deleted = before > 0 and generator.random() < 0.3
        act = store.delete if deleted else store.put
        record = await act(key, encoder(key, padding), expected=before)
        os.write(1, f"{record.revision} {key} {before} {int(deleted)}\n".encode())
        reported[0] = record.revision


async def compact(store: Store, generator: random.Random) -> None:
    """Let go of some history now and then, to be killed in the middle of that as well."""
    while True:
        await asyncio.sleep(generator.uniform(0, 0.1))
        if reported[0] > store.compacted:  # what nobody was told of must stay visible as a change
            await store.compact(generator.randint(store.compacted, reported[0]))


async def main() -> None:
    """Open and write."""
    generator = random.Random(int(sys.argv[2]))
    store = await Store.open(Path(sys.argv[1]))
    os.write(1, f"opened {store.revision} {store.compacted}\n".encode())
    await asyncio.gather(compact(store, generator), *(write(store, generator, n) for n in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(main())
