"""The three patch formats that clients send.

Each function takes a document and a patch, modifies neither, and returns a new document that shares nothing with them.
A patch that cannot be applied raises `PatchError`.
"""

from kubesim.patches.errors import PatchError, PatchFault
from kubesim.patches.json_patch import MOST_OPERATIONS, json_patch
from kubesim.patches.merge_patch import merge_patch
from kubesim.patches.strategic import strategic_merge

__all__ = ["MOST_OPERATIONS", "PatchError", "PatchFault", "json_patch", "merge_patch", "strategic_merge"]
