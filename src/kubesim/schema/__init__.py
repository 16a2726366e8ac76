"""What the objects of a kind look like: structural schemas, as CustomResourceDefinitions write them.

A `Schema` is compiled once from an OpenAPI dict and then does four things to an object, each one pass over it:
it says which values have the wrong JSON type, removes fields it does not know, fills in defaults, and says what else
is wrong. ``structural`` decides whether an OpenAPI dict is a structural schema at all; ``compiled`` is the compiled
form; ``value_checks`` holds what single values must satisfy; ``formats`` and ``go_regexp`` know particular texts.

Words and order of the problems follow the real server. What deviates: expressions in CEL are accepted but not
evaluated (`Schema.unevaluated` names them), and of several alternatives that fail the one with the fewest problems
is reported.
"""

from kubesim.schema.depth import DEEPEST, deeper
from kubesim.schema.schema import Schema, SchemaError

__all__ = ["DEEPEST", "Schema", "SchemaError", "deeper"]
