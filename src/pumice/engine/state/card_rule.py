"""A rule for tasks that request cards of a node: whether one fits depends on the cards that others use there."""

from __future__ import annotations

from dataclasses import dataclass

from pumice.model.specs import Items


@dataclass(frozen=True, slots=True)
class CardRule:
    """The places of the resources that are handed out card by card; -1: the resource is not known."""

    memory: int
    number: int

    def concerns(self, items: Items) -> bool:
        """Whether a request asks for cards."""
        return any(j in (self.memory, self.number) for j, _ in items)
