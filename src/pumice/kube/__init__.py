"""The Kubernetes API: clients, local copies of collections, and objects as the model needs them.

    client/   HTTP, the verbs of the API, credentials, rate limits
    watch/    informers, and the queue of changes between them and a controller
    decode/   typed structs with the fields that are read, checked and converted into descriptions of the model

An object that cannot be understood is rejected with an error that names the object and the field.

Imports ``model`` only.
"""
