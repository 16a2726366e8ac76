"""Server-side apply: field ownership by field managers, conflicts, and removal of fields no longer applied.

A manager applies the fields it cares about and owns them from then on. Fields that it applied before and no longer
applies are removed unless another manager owns them too. Overwriting a field of another manager is a conflict unless
``force`` is set. ``field_set`` represents sets of fields, ``merge`` merges the applied object and removes fields,
``managed_fields`` reads and writes ``metadata.managedFields``.

Ownership is tracked from the first apply of an object onwards, because most objects are never applied. Fields that
existed before belong to ``before-first-apply``, as with kube-apiserver for an object without ``managedFields``.
"""

from kubesim.apply.managed_fields import APPLY, UPDATE, ApplyRequest, FieldManager, FieldManagers, UpdateOwnership

__all__ = ["APPLY", "UPDATE", "ApplyRequest", "FieldManager", "FieldManagers", "UpdateOwnership"]
