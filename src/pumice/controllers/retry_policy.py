"""How the work queues of all controllers retry: not before the API server wants to be asked again."""

from __future__ import annotations

import logging
from typing import Final

from kubebase.work_queue import RetryPolicy
from pumice.kube.client.api_errors import ApiError, UnreachableError, retry_after_seconds

RETRY_POLICY: Final = RetryPolicy(
    first_delay=0.1,
    longest_delay=10.0,
    jitter=0.5,
    expected_errors=(ApiError, UnreachableError),
    expected_level=logging.INFO,
    requested_delay=retry_after_seconds,
)
