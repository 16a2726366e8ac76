from __future__ import annotations

from kubesim.api.status import conflict
from kubesim.controllers.retry_policy import RETRY_POLICY


def test_errors_of_the_api_are_expected():
    assert isinstance(conflict("pods", "", "a"), RETRY_POLICY.expected_errors)
    assert not isinstance(KeyError("a bug"), RETRY_POLICY.expected_errors)
