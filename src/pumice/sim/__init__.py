"""The engine on a simulated cluster, in virtual time.

A scenario is ordinary Kubernetes objects, plus what happens in which cycle and what must come out::

    files ──► scenario ──► loading ──► judging ──► simulation ──► report, overview
              (Scenario)   (objects)   admission   cluster        expect ──► differences
                                                   events, churn

It is read through ``kube``, judged by the rules of ``admission`` and fed to the engine as events; what the engine
decides is carried out at once: a bound task runs. No scheduling code and no rules live here, so that what a simulation
shows is what a cluster would do.

Imports every package below: scenarios name objects of the model and figures of the share tree.
"""
