"""The shim: one small process per pod that starts its containers, keeps their logs and writes down how they end.

A shim belongs to no other process: agent and API server may be killed while it goes on. Everything that it knows is in
files of the pod's folder, each written whole; everything that it must do is in ``plan.json`` and ``stop.json`` there.
It imports nothing outside the standard library, so that it starts quickly and stays small.
"""
