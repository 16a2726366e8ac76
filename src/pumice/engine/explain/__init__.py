"""Why does a job wait? The engine's own answer, in numbers.

Before any decision, the report asks an engine that knows the cluster: does the job's queue accept work, is the job
enqueued, do its pods exist (``explain``), does a limit reject its next unit (``limit_report``), which nodes have
capacity and why are the others excluded (``node_fit``), and which jobs are served before it at which level of the tree
(``competition``). Then the engine runs ahead (``forecast``): what it decides next, and what it would decide later if
nothing else happened. Every answer comes from the engine's own code; nothing is computed a second time.

The engine is unusable afterwards: it has run ahead of the cluster. Imports the rest of ``engine``.
"""

from pumice.engine.explain.explain import explain
from pumice.engine.explain.wait_report import WaitReport

__all__ = ["WaitReport", "explain"]
