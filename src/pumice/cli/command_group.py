"""A group of commands that suggests a name for a misspelt one."""

from __future__ import annotations

import click


class SuggestingGroup(click.Group):
    """Suggests from all names of the group, whether their commands are loaded yet or not, and with any click."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first argument, and the arguments after it."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            from difflib import get_close_matches  # only somebody who has made a mistake waits for it

            close = get_close_matches(name, self.list_commands(ctx), 1, 0.5)
            ctx.fail(f"No such command '{name}'." + (f" Did you mean '{close[0]}'?" if close else ""))
        return super().resolve_command(ctx, args)
