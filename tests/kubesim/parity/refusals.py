"""Where one server takes what the other refuses, and why."""

from __future__ import annotations

import re

from tests.kubesim.http.bad_requests import BadRequest

ALLOWED: dict[str, tuple[str, str]] = {
    # why: codes there and here, and what the request looks like (regular expressions)
    "a field that nobody knows is a warning here, as in every other write": ("500 20.", r"^PATCH .*apply-patch"),
    "the metadata of a question is not looked at": ("422 201", r"^POST \S+reviews\?"),
    "what a request cannot change is not looked at": (
        "4.. 200",
        r'^PATCH \S+/poddisruptionbudgets/it\?.*"status"|^PUT \S+/finalize\?',
    ),
    "as with ServiceAccount admission, without which the compared server runs": ("200 422", r"^PUT \S+/pods/it\?"),
    "a node gets a network for its pods at once, and keeps it": ("200 422", r"^PUT \S+/nodes/it\?"),
    "all priority classes are deleted or none, and some must stay": ("200 403", r"^DELETE \S+/priorityclasses\?"),
    "documents are not nested as deeply": ("200 400", r'(\{"a": ){100}'),
    "a selector has to say what it looks at": ("200 400", r"fieldSelector=%3D[ &]"),
    "a patch is an object": ("200 400", r"^PATCH .*strategic-merge-patch.*\r\n\r\nnull$"),
    "a request is text": ("20. 400", r"[\x80-\xff]|\\\\ud[89a-f]"),
    "ranges of media types are understood": ("406 20.", r"Accept: application/\*"),
    "YAML is understood under all its names": ("415 20.", r"Content-Type: (application/x-|text/)yaml"),
    "protobuf is read, not written": ("20. 406", r"Accept: application/vnd.kubernetes.protobuf"),
    "what is asked of a deletion is looked at": ("200 422", r"^DELETE \S+fieldValidation=x"),
}


def why(asked: BadRequest, there: int, here: int) -> str:
    """Why the answers may differ like this; empty if they may not."""
    text = asked.wire().decode("latin-1")
    for reason, (codes, pattern) in ALLOWED.items():
        if re.fullmatch(codes, f"{there} {here}") and re.search(pattern, text, re.DOTALL):
            return reason
    return ""
