"""What can be wrong with a manifest: a field, and the object it belongs to."""

from __future__ import annotations


class FieldError(ValueError):
    """A field whose value cannot be used; the object is known only further up."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(field, message)
        self.field = field
        self.message = message

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class ObjectError(ValueError):
    """An object that is refused: which one (``Queue/dev``, ``Pod/ns/name``), which field, and why."""

    def __init__(self, subject: str, field: str, message: str) -> None:
        super().__init__(subject, field, message)
        self.object = subject
        self.field = field
        self.message = message

    def __str__(self) -> str:
        return ": ".join(part for part in (self.object, self.field, self.message) if part)
