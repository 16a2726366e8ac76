"""The controllers of JobFlows and JobTemplates: they run jobs in the order of their dependencies.

The status of a flow holds all that its controller has to remember: a job that is recorded as Completed stays so,
whether or not the job still exists, and a flow that has succeeded or failed does nothing more.

    job_patch    the spec of a job: its template with the patch of the flow
    flow_plan    which jobs may start, and the status: a function without I/O
    controller   informers, and the writing
    templates    the status of JobTemplates: the jobs made from each
"""

from pumice.controllers.flows.controller import JobFlowController
from pumice.controllers.flows.templates import JobTemplateController

__all__ = ["JobFlowController", "JobTemplateController"]
