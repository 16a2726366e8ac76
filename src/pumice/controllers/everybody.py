"""All controllers of a batch cluster."""

from __future__ import annotations

from pumice.controllers.podgroups import PodGroups

EVERYBODY = (PodGroups,)
