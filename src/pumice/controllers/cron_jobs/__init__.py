"""The controller of Volcano CronJobs: it makes a job whenever one is due, and deletes old ones.

cron_plan    what is due, what is deleted, and the status: a function without I/O
controller   informers, and the writing
"""

from pumice.controllers.cron_jobs.controller import CronJobController

__all__ = ["CronJobController"]
