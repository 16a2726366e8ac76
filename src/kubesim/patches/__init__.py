"""Changes to an object, written down: the three forms in which clients send them.

Each function takes a document and a patch, changes neither, and returns a new document that shares nothing with
them, so the caller may do with it what it likes. What cannot be done is a `PatchError`.
"""

from kubesim.patches.errors import PatchError, PatchFault
from kubesim.patches.json_patch import MOST_OPERATIONS, json_patch
from kubesim.patches.merge_patch import merge_patch
from kubesim.patches.strategic import strategic_merge

__all__ = ["MOST_OPERATIONS", "PatchError", "PatchFault", "json_patch", "merge_patch", "strategic_merge"]
