"""``pumice demo``."""

import click


@click.command()
def demo() -> None:
    """See it schedule."""
