"""``pumice completion``: prints the completion scripts of shells."""

from __future__ import annotations

import click

from pumice.cli.terminal import echo

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    The script completes commands, options, and the names of queues, jobs, namespaces and contexts in the cluster, for
    pumice, vcctl, vqueues, vjobs, vsub, vcancel, vsuspend and vresume.

    \b
    bash:  source <(pumice completion bash)            in ~/.bashrc
    zsh:   source <(pumice completion zsh)             in ~/.zshrc, after compinit
    fish:  pumice completion fish | source             in ~/.config/fish/config.fish
    """
    from click.shell_completion import ShellComplete, get_completion_class

    from pumice.cli.cluster.volcano_programs import PROGRAMS

    made = get_completion_class(shell)
    assert made is not None, shell
    for name in ("pumice", *PROGRAMS):
        script = made(click.Command(name), {}, name, f"_{name.upper()}_COMPLETE")
        # The method of the subclass would start the shell to read its version.
        echo(ShellComplete.source(script).rstrip())
