"""The command lines of the processes that ``pumice up`` starts."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubesim.server import ServerSettings

HISTORY_FILE = "history.db"  # in the data directory
AGENT_FOLDER = "agent"  # in the data directory


def scheduler_arguments(
    settings: ServerSettings, config: Path | None, metrics_address: str | None, decision_log: Path | None
) -> list[str]:
    """The arguments of the scheduler process."""
    command = ["scheduler", "--kubeconfig", str(settings.kubeconfig), "--metrics-address", metrics_address or ""]
    command += ["--config", str(config)] if config else []
    command += ["--history", str(settings.data / HISTORY_FILE)] if settings.data else []
    return command + (["--decision-log", str(decision_log), "--trace"] if decision_log else [])


def controllers_arguments(settings: ServerSettings) -> list[str]:
    """The arguments of the controllers process."""
    return ["controllers", "--kubeconfig", str(settings.kubeconfig), "--metrics-address", ""]


def agent_arguments(
    settings: ServerSettings, capacity: str | None, reserve: str | None, *, shared: bool = False
) -> list[str]:
    """The arguments of the agent of this machine."""
    assert settings.data is not None  # not in memory
    command = ["agent", "--kubeconfig", str(settings.kubeconfig), "--data", str(settings.data / AGENT_FOLDER)]
    command += ["--shared"] if shared else []
    command += ["--capacity", capacity] if capacity else []
    return command + (["--reserve", reserve] if reserve else [])


def ui_arguments(
    settings: ServerSettings, page: socket.socket, decision_log: Path | None, kubeconfig: Path | None = None
) -> list[str]:
    """The arguments of the process that serves the web page, as the user of another kubeconfig if one is given."""
    host, port = page.getsockname()
    command = ["ui", "--kubeconfig", str(kubeconfig or settings.kubeconfig), "--listen", f"{host}:{port}"]
    command += ["--history", str(settings.data / HISTORY_FILE)] if settings.data and decision_log else []
    return command + (["--decision-log", str(decision_log)] if decision_log else [])
