"""The storage of the API server: one log of revisions, in SQLite.

Every write gets the next revision and becomes an entry of the log (``log``); the newest entry of a key is the object.
The ``store`` keeps in memory which entry that is, some values, and the latest changes for watchers; everything else is
read from the file. One thread (``writer``) commits, in each commit all writes that arrived during the previous one: a
write is answered when it is on disk, and not visible earlier.

A data directory belongs to one process at a time (``directory_lock``); ``fsck`` checks one, in use or not, ``repair``
makes a new log of what can be read of a damaged one, and ``backup`` copies one that is in use.
"""

from kubesim.storage.errors import Compacted, DataDamaged, DataInUse, RevisionConflict, StorageFailed
from kubesim.storage.log_entries import SetAside
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
    "SetAside",
    "StorageFailed",
    "Store",
]
