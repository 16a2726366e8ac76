"""Everything the API server keeps: one log of revisions, in SQLite.

Every write gets the next revision and becomes a line of the log (``log``); the newest line of a key is the object.
The ``store`` keeps in memory which line that is, a few values, and the latest changes for watchers; everything else
is read from the file. One thread (``writer``) commits, always as many writes as have come in during the commit
before: a write is answered when it is on disk, and nobody sees it earlier.

A data directory belongs to one process at a time (``directory_lock``); ``fsck`` checks one, in use or not.
"""

from kubesim.storage.errors import Compacted, DataDamaged, DataInUse, RevisionConflict, StorageFailed
from kubesim.storage.results import Page, Record
from kubesim.storage.store import Store
from kubesim.storage.watch_cache import Change

__all__ = [
    "Change",
    "Compacted",
    "DataDamaged",
    "DataInUse",
    "Page",
    "Record",
    "RevisionConflict",
    "StorageFailed",
    "Store",
]
