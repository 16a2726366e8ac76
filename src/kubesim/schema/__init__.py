"""Structural schemas, as CustomResourceDefinitions declare them.

A `Schema` is compiled once from an OpenAPI dict and then does four things to an object, each in one pass: it reports
values of the wrong JSON type, prunes unknown fields, fills in defaults, and validates. ``structural`` decides whether
an OpenAPI dict is a structural schema; ``compiled`` is the compiled form; ``value_checks`` holds the checks of single
values; ``formats`` and ``kubebase.go_regexp`` check strings.

Messages and their order equal those of kube-apiserver. Differences: CEL expressions are accepted but not evaluated
(`Schema.unevaluated` names them), and of several failing alternatives the one with the fewest problems is reported.
"""

from kubesim.schema.depth import DEEPEST, deeper
from kubesim.schema.schema import Schema, SchemaError

__all__ = ["DEEPEST", "Schema", "SchemaError", "deeper"]
