"""A soak of ``pumice up``: churn, attackers and faults at once, for an hour or as long as asked (``make soak``).

Everything runs on this machine, on loopback. What must hold all the time (``pod_audit``, ``ledger``):

- a pod is bound once, and no node holds more than it has;
- revisions rise, and a watch misses nothing;
- what was acknowledged is there, whatever was killed since;
- every job ends, the log has no traceback, and ``pumice fsck`` finds nothing at the end;
- the memory of each process does not grow with the pods that came and went.

Processes are killed in the last third only: a process that starts anew says nothing about its memory.
"""
