"""The verbs of the API on stored objects, without HTTP.

``requests`` parses paths and options. ``get_list``, ``watch``, ``writes`` (create, update, delete; with the pure steps
in ``write_steps``), ``patch``, ``scale`` and ``subresources`` handle the verbs for a ``request_context``. ``client``
offers them to controllers and kubelets of this process. Errors are an ``ApiError`` (``status``) with ``field_errors``.
"""
