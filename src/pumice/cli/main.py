"""``pumice``: the commands.

Importing this module costs little: a command brings in what it needs when it runs.
"""

from __future__ import annotations

from importlib import import_module

import click

from pumice import __version__
from pumice.cli.command_group import SuggestingGroup
from pumice.cli.engine_form import engine_form
from pumice.cli.entry_point import run_program

COMMAND_SECTIONS = {
    "Work with queues and jobs": {
        "job": "cluster.command_groups",
        "queue": "cluster.command_groups",
        "top": "top.top_command",
        "why": "why.why_command",
        "plan": "plan.plan_command",
        "login": "login_command",
        "token": "login_command",
    },
    "Try it without a cluster": {
        "up": "up.up_command",
        "sim": "sim_node_command",
        "demo": "scenario.demo_command",
        "run": "scenario.run_command",
        "check": "scenario.check_command",
        "entitle": "scenario.entitle_command",
        "simulate": "simulate.simulate_command",
    },
    "Install into a cluster": {
        "install": "install_command",
        "uninstall": "install_command",
        "migrate": "migrate_command",
    },
    "Components of an installation": {
        "scheduler": "daemons.scheduler_command",
        "controllers": "daemons.controllers_command",
        "webhooks": "daemons.webhooks_command",
        "ui": "daemons.ui_command",
        "agent": "daemons.agent_command",
    },
    "Tools": {
        "at": "past.at_command",
        "audit": "audit_command",
        "replay": "replay_command",
        "fsck": "fsck_command",
        "backup": "backup_command",
        "restore": "backup_command",
        "completion": "cluster.completion_command",
    },
}
"""The commands by purpose, as the help lists them, each with its module, which is imported when the command is used."""

COMMAND_MODULES = {name: module for section in COMMAND_SECTIONS.values() for name, module in section.items()}


class LazyCommands(SuggestingGroup):
    """A group of commands that are loaded one by one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names."""
        return sorted({*self.commands, *COMMAND_MODULES})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name."""
        if cmd_name in COMMAND_MODULES and cmd_name not in self.commands:
            module = import_module(f"pumice.cli.{COMMAND_MODULES[cmd_name]}")
            self.add_command(getattr(module, cmd_name))
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by purpose, most used first."""
        width = max(map(len, COMMAND_MODULES))
        for title, names in COMMAND_SECTIONS.items():
            found = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(width), one.get_short_help_str(limit=200)) for name, one in found if one is not None]
                )


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="pumice", message=f"%(prog)s %(version)s ({engine_form()})")
def cli() -> None:
    """A hierarchical fair-share batch scheduler that speaks the Volcano API.

    \b
    FILE is a YAML stream of Kubernetes objects, a folder of them, or - for standard input.
    Exit status: 0 success; 1 failure (expectation not met, not found, refused); 2 invalid usage or input.
    """


def main() -> None:
    """The entry point of the command ``pumice``."""
    run_program(cli, "pumice")
