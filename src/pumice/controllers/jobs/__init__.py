"""The controller of Volcano Jobs: creates a job's podgroup and pods, counts them, and executes its policies.

The controller keeps no state that is not stored in the API. A job's status holds its phase, version and restarts, and
each pod its version; from these, the podgroup and the pending commands, ``plan`` computes the next writes, as a
function without I/O. Intent is written before it is executed: a restart raises the version in the status, and older
pods are deleted, whether or not the controller that raised it still runs. For the same reason nothing happens twice:
once the status records an action, the pods that triggered it belong to an older version.

    spec            what a job asks for                pod_index         its pods, by task and version
    job_status      its recorded status                lifecycle_events  what has happened to it
    policies        the actions for these events       phases            the phases and the transitions
    dependencies    which tasks may start              state_machine     the next transition
    podgroup, pods  the objects created for it         plan              all of it together: the next writes
    plugins         what it gets for its framework    controller        informers, and the writing
"""

from pumice.controllers.jobs.controller import JobController

__all__ = ["JobController"]
