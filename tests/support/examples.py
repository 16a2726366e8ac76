"""How many examples a property test with slow examples gets: a part of what the Hypothesis profile gives to others.

A fixed ``max_examples`` would be the same in the long profile, where there is time for many.
"""

from hypothesis import settings


def fewer_examples(divisor: int, at_least: int = 1) -> settings:
    """Settings with the number of examples of the current profile, divided, but not fewer than ``at_least``."""
    return settings(max_examples=max(at_least, settings.default.max_examples // divisor))
