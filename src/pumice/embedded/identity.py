"""The names under which the embedded server shows itself as part of Pumice."""

from __future__ import annotations

from typing import Final

from kubesim.identity import ServerIdentity
from pumice import __version__

PUMICE: Final = ServerIdentity(
    name="pumice",
    title="Pumice",
    domain="pumice.dev",
    version=__version__,
    program="pumice up",
    check_command="pumice fsck",
    repair_command="pumice up --repair",
)
