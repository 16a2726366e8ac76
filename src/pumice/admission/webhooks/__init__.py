"""Admission for a real Kubernetes API, which asks over HTTPS: the same rules, behind a webhook.

    API server ──HTTPS──► server ──► handler ──► mutate / validate (pure rules) ──► response
                            │          └── ClusterView ◄── informer_view ◄── informers
                            └── certificates, from a Secret that all replicas share

Mutation only fills in, validation only refuses: what is judged is what all webhooks of the cluster have made of an
object. Nothing in here is imported by the embedded server, which calls the rules in its write path.
"""
