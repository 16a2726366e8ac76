"""How the work queues of all controllers retry: API errors are expected, because writes may conflict."""

from __future__ import annotations

from typing import Final

from kubebase.work_queue import RetryPolicy
from kubesim.api.status import ApiError

RETRY_POLICY: Final = RetryPolicy(expected_errors=(ApiError,))
WORKERS: Final = 64
"""How many keys of a controller are reconciled in parallel: writes are cheap here, and wait for the same disk."""
