"""HTTP: from bytes on a socket to a call of ``kubesim.api``, and back.

``listen`` accepts connections, ``connection`` parses requests, ``handler`` dispatches them, ``content_negotiation``
decodes bodies and encodes responses, ``auth`` and ``tls`` set up authentication and TLS.
"""
