"""How the work queues of all controllers retry: an error of the API is expected, because another write came first."""

from __future__ import annotations

from typing import Final

from kubebase.work_queue import RetryPolicy
from kubesim.api.status import ApiError

RETRY_POLICY: Final = RetryPolicy(expected_errors=(ApiError,))
WORKERS: Final = 64
"""How many keys of a controller are reconciled in parallel: writes are cheap here, and wait for the same disk."""
