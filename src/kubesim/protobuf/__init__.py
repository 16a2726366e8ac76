"""Bodies in protobuf, which some clients write and will not do without: read here, and never written.

``wire`` takes messages apart, ``field_numbers`` says which field a number is, ``messages`` joins that with the shapes
of the built-in kinds, and ``decode`` makes the object that the same client would have written in JSON.
"""

from kubesim.protobuf.decode import read

__all__ = ["read"]
