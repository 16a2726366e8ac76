"""The error for a field, an option or a file whose value cannot be used."""

from __future__ import annotations


class FieldError(ValueError):
    """A field whose value cannot be used; the caller knows which object it belongs to."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(field, message)
        self.field = field
        self.message = message

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message
