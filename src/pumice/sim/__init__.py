"""The engine on a simulated cluster, in virtual time.

A scenario (ordinary Kubernetes objects, plus what happens in which cycle and what must come out) is read
through ``kube``, fed to the engine as events, and its decisions are carried out at once: a bound task
runs, an evicted one goes. No scheduling code lives here, so that what a simulation shows is what a
cluster would do. Out comes a result that can be printed, compared with what was expected, or recorded.

Imports ``scheduling`` and ``kube`` (scenarios are Kubernetes objects).
"""
