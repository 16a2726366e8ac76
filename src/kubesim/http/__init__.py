"""HTTP: from bytes on a socket to a call of ``kubesim.api``, and back.

``listen`` accepts connections, ``connection`` reads requests, ``handler`` dispatches them, ``content_negotiation``
decodes bodies and encodes answers, ``auth`` and ``tls`` decide who may connect.
"""
