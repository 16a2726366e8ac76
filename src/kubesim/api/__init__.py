"""What a request does: the verbs of the API on stored objects, without HTTP.

``requests`` says what is asked for; ``get_list``, ``watch``, ``writes`` (create, update, delete), ``patch``, ``scale``
and ``subresources`` do it for a ``request_context``; ``client`` offers the same to controllers and kubelets of this
process. Refusals are an ``ApiError`` (``status``) with the ``field_errors`` found.
"""
