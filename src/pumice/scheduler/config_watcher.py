"""Watches the configuration file of a running scheduler and applies it when its content changes.

The file is read whole every time and compared by content, so it does not matter how it was replaced: written in place,
renamed over, or swapped behind a symbolic link as Kubernetes does with a mounted ConfigMap. An invalid file is reported
once, with the line of the error; the configuration in force stays.

In a cluster the file is mounted from a ConfigMap, and its content there is ahead of the file by up to a minute. Where
the ConfigMap is watched (``follow``), it takes the place of the file as soon as it is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pumice.config.load import read_config
from pumice.engine.config.scheduler_config import ConfigError, SchedulerConfig
from pumice.scheduler.config_map_watch import ConfigMapWatch

EVERY = 2.0
"""Seconds between two checks."""


class ConfigWatcher:
    """A configuration file and its last content. ``say`` reports the outcome of a change to the user."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self.path = path
        self._say = say
        self._text: str | None = None
        self.problem = ""  # why the present file is not in force; empty: it is
        self._woken = asyncio.Event()
        self._config_map: ConfigMapWatch | None = None

    def follow(self, config_map: ConfigMapWatch) -> None:
        """Read the configuration from this ConfigMap, as long as it is there."""
        self._config_map = config_map

    def first(self) -> SchedulerConfig:
        """The configuration at startup; raises ConfigError or OSError."""
        self._text = self._read()
        return read_config(self._text, str(self.path))

    def read_if_changed(self) -> SchedulerConfig | None:
        """The configuration, if the file has changed and is valid."""
        try:
            text = self._read()
            if text == self._text:
                self.problem = ""
                return None
            config = read_config(text, str(self.path))
        except (ConfigError, OSError) as error:
            if str(error) != self.problem:
                self.problem = str(error)
                self._say(f"{error}; the previous configuration stays in force")
            return None
        self._text, self.problem = text, ""
        return config

    def _read(self) -> str:
        if self._config_map is not None and (text := self._config_map.text) is not None:
            return text
        try:
            return self.path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ConfigError(str(self.path), 1, f"not valid UTF-8: {error.reason} at byte {error.start}") from None

    def check_now(self) -> None:
        """Check immediately."""
        self._woken.set()

    async def watch(self, take: Callable[[SchedulerConfig], None]) -> None:
        """Call ``take`` with every new valid configuration."""
        async with asyncio.TaskGroup() as tasks:
            if self._config_map is not None:
                tasks.create_task(self._config_map.run(self.check_now))
            tasks.create_task(self._check_repeatedly(take))

    async def _check_repeatedly(self, take: Callable[[SchedulerConfig], None]) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), EVERY)
            self._woken.clear()
            if (config := self.read_if_changed()) is not None:
                for note in config.notes:
                    self._say(f"warning: {config.source}: {note}")
                take(config)
