"""All controllers of a batch cluster."""

from __future__ import annotations

from pumice.controllers.jobs import Jobs
from pumice.controllers.podgroups import PodGroups
from pumice.controllers.queues import Queues
from pumice.controllers.routed import Routed

EVERYBODY = (PodGroups, Jobs, Queues, Routed)
