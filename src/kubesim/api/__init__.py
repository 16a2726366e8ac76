"""The verbs of the API on stored objects, without HTTP.

``requests`` parses paths and options; ``get_list``, ``watch``, ``writes`` (create, update, delete), ``patch``,
``scale`` and ``subresources`` handle the verbs for a ``request_context``; ``client`` offers them to controllers and
kubelets of this process. Errors are an ``ApiError`` (``status``) with the ``field_errors`` found.
"""
