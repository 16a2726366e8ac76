"""Kubernetes objects and the API that serves them.

Wire structs hold only the fields that are read. Manifests, whether from a file or from an API, are
decoded into them, checked, and translated into descriptions of the model; an object that cannot be
understood is refused with an error that names the object and the field. What the engine decides goes back
the same way, as writes.

Imports ``model`` only.
"""
