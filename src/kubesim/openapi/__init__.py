"""OpenAPI documents, which kubectl uses to explain, validate and merge.

There is one document for each group and version (``/openapi/v3``), and one for everything in version 2
(``/openapi/v2``, JSON only). They are built from the registry on request: few clients ask, and only once, so nothing is
cached. ``components`` builds the schemas, ``operations`` the paths; ``swagger`` converts both to version 2.

kubectl needs, of version 3: that a kind's PATCH has the parameter ``fieldValidation`` (otherwise it validates on the
client, by version 2 in a binary format that this server does not support), that its body takes a strategic merge patch
(otherwise it uses a JSON merge patch), and the merge keys in the schema. It requests version 2 only as a fallback, and
works without it.
"""

from kubesim.openapi.documents import document, index, swagger

__all__ = ["document", "index", "swagger"]
