"""Admission webhooks for a real Kubernetes API server: the same rules, served over HTTPS.

    API server ──HTTPS──► server ──► handler ──► mutate / validate (pure rules) ──► response
                            │          └── ClusterView ◄── informer_view ◄── informers
                            └── certificates, from a Secret that all replicas share

The mutating webhook only fills in defaults, the validating one only rejects: it sees the result of all mutating
webhooks of the cluster. The embedded server imports nothing from here; it calls the rules in its write path.
"""
