"""Server-side apply: who has set which field, and what follows from it.

Somebody applies what they care about, and nothing else. The fields that they name are theirs from then on; what they
named before and do not name any more goes, unless it is also somebody else's; and a field of somebody else's is not
overwritten unless they insist. ``field_set`` names fields, ``merge`` lays one object over another and takes fields
away, ``managed_fields`` keeps the books in ``metadata.managedFields``.

Books are kept from the first application of an object onwards: most objects are never applied, and then nobody asks
who has set what. Whatever was there before then belongs to ``before-first-apply``, as on a real server that finds an
object without books.
"""

from kubesim.apply.managed_fields import APPLY, UPDATE, ApplyRequest, FieldManager, FieldManagers, UpdateOwnership

__all__ = ["APPLY", "UPDATE", "ApplyRequest", "FieldManager", "FieldManagers", "UpdateOwnership"]
