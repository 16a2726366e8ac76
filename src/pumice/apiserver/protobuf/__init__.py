"""Bodies in protobuf, which some clients write and will not do without: read here, and never written.

``wire`` takes messages apart, ``numbers`` says which field a number is, ``layouts`` joins that with the shapes of the
built-in kinds, and ``reading`` makes the object that the same client would have written in JSON.
"""

from pumice.apiserver.protobuf.reading import read

__all__ = ["read"]
