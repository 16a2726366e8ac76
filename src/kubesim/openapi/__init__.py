"""OpenAPI documents: what is served, in the form that kubectl explains, validates and merges by.

One document for each group and version (``/openapi/v3``), and one for everything in the older form
(``/openapi/v2``, JSON only). They are made from the registry when somebody asks: a handful of clients do, once,
so nothing is kept. ``components`` are the schemas, ``operations`` the paths; ``swagger`` rewrites both for version 2.

kubectl needs, of version 3: that a kind's PATCH has the parameter ``fieldValidation`` (else it validates on its own,
by version 2 in a binary form that is not spoken here), that its body takes a strategic merge patch (else it merges
plainly), and the merge keys in the schema. It asks for version 2 only as a fallback, and does without.
"""

from kubesim.openapi.documents import document, index, swagger

__all__ = ["document", "index", "swagger"]
