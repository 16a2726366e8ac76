from __future__ import annotations

import pytest

from pumice.controllers.retry_policy import RETRY_POLICY
from pumice.kube.client.api_errors import ApiError, UnreachableError


@pytest.mark.parametrize(
    "error", [ApiError(409, "Conflict", "a write came first"), UnreachableError("connection refused")]
)
def test_errors_of_the_api_are_expected(error):
    assert isinstance(error, RETRY_POLICY.expected_errors)


def test_retry_delay_follows_retry_after():
    busy = ApiError(429, "TooManyRequests", "try again later", retry_after=42.0)
    assert RETRY_POLICY.delay(1, busy) == 42.0


def test_retry_delay_without_retry_after_is_at_most_ten_seconds():
    delays = [RETRY_POLICY.delay(1000, ApiError(500, "InternalError", "")) for _ in range(50)]
    assert all(5.0 <= delay <= 10.0 for delay in delays)
