"""The engine on a simulated cluster, in virtual time.

A scenario is a set of Kubernetes objects, with events in some cycles and expected results::

    manifest_files ──► scenario ──► scenario_loader ──► manifest_admission ──► simulation ──► run_report, run_overview
                       (Scenario)   (object_set)        simulated_admission    scenario_events      expectations
                                                                               task_churn

``pumice.kube`` decodes the objects, the rules of ``pumice.admission`` check them, and the engine gets them as events.
The simulated cluster executes decisions at once: a bound task runs. This package contains no scheduling code and no
admission rules, so a simulation shows what a cluster would do.
"""
