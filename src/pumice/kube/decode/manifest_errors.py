"""The error for an object that is refused."""

from __future__ import annotations


class ObjectError(ValueError):
    """An object that is refused: which one (``Queue/dev``, ``Pod/ns/name``), which field, and why."""

    def __init__(self, subject: str, field: str, message: str) -> None:
        super().__init__(subject, field, message)
        self.object = subject
        self.field = field
        self.message = message

    def __str__(self) -> str:
        return ": ".join(part for part in (self.object, self.field, self.message) if part)
