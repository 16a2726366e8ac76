"""The web page of a cluster: one picture for all viewers, served as documents, a stream of changes and the page itself.

A process of its own, and a client of the API like any other: it watches queues, podgroups, pods and nodes, keeps one
picture of them for all viewers, and serves JSON documents, server-sent events and the page (``web/``). It writes
nothing into the cluster. ``CONTRACT.md`` describes the HTTP surface between this server and the page.
"""
