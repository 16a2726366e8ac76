"""The controller of Volcano Jobs: it makes a job's podgroup and pods, counts them, and does what its policies ask for.

Nothing is remembered that is not written down. A job's status says where the job stands (phase, version, restarts), its
pods say of which version they are; from these, the podgroup and the commands that wait, ``plan`` works out what to
write next, as a function without I/O. What is meant is written before it is done: a restart raises the version in the
status, and whatever pod is older goes, whether the controller that raised it still lives or not. For the same reason
nothing happens twice: what an action was about is of an older version once the action is written down.

    spec            what a job asks for                pod_index         its pods, by task and version
    job_status      what its status says               lifecycle_events  what has happened to it
    policies        the actions for these events       phases            the phases and the transitions
    dependencies    which tasks may start              state_machine     the next transition
    podgroup, pods  the objects made for it            plan              all of it together: the next writes
    plugins         hosts and addresses of its pods    controller        informers, and the writing
"""

from pumice.controllers.jobs.controller import JobController

__all__ = ["JobController"]
