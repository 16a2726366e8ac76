"""Why does a job wait? The engine's own answer, in numbers.

An engine that knows the cluster is asked, before it decides anything: does the job's queue take work (``engine``), is
it let in, are its pods there (``policy``), does a limit refuse what it would start (``limits``), which nodes have room
and what is wrong with the others (``places``), and who is served before it at which level of the tree (``contest``).
Then the engine runs ahead (``outlook``): what it decides next, and what it would decide later if nothing else happened.
Every answer is one the engine itself goes by; nothing is worked out a second time.

Whoever asks gives up the engine: it has run ahead of the cluster. Imports the rest of ``scheduling``.
"""

from pumice.engine.explain.explain import explain
from pumice.engine.explain.wait_report import WaitReport

__all__ = ["WaitReport", "explain"]
