"""The names that a server shows to its users: in annotations, the kubeconfig, ``/version``, file names and messages.

A program that embeds this server hands in its own, so that its users see one product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kubesim import __version__


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """The names of the product that a server is part of."""

    name: str = "kubesim"
    """In lower case: the kubeconfig's context, the container runtime, the build in ``/version``, the database file."""
    title: str = "kubesim"
    """The product as sentences spell it."""
    domain: str = "kubesim.dev"
    """The domain of the annotations that control the simulation of nodes and pods."""
    version: str = __version__
    program: str = "kubesim"
    """The command that runs the server: the holder of a data directory."""
    check_command: str = ""
    """The command that checks a data directory; messages about damaged data name it."""

    repair_command: str = ""
    """The command that repairs a data directory; messages about damaged data name it."""

    @property
    def system_user(self) -> str:
        """The user of requests that the controllers and kubelets of this process make."""
        return f"system:{self.name}"

    @property
    def database(self) -> str:
        """The name of the database file in a data directory."""
        return f"{self.name}.db"

    @property
    def check_hint(self) -> str:
        """The end of a message about damaged data: which command shows more."""
        return f"; `{self.check_command}` says more" if self.check_command else ""

    @property
    def repair_hint(self) -> str:
        """The end of a message about damaged data: which command goes on with what is left."""
        return f", or go on without what is lost: `{self.repair_command}`" if self.repair_command else ""

    def annotation(self, key: str) -> str:
        """The full key of an annotation of this product."""
        return f"{self.domain}/{key}"


KUBESIM: Final = ServerIdentity()
"""The identity of a server that is not part of another product."""
