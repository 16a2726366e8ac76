"""Work in a copy of the process."""

from __future__ import annotations

import pytest

from pumice.cli.why.process_copy import CopyError, in_process_copy


def test_the_copy_sees_what_is_there_and_changes_only_its_own() -> None:
    numbers = [1, 2]

    def work() -> list[int]:
        numbers.append(3)
        return numbers

    assert in_process_copy(work) == [1, 2, 3]
    assert numbers == [1, 2]


def test_a_result_larger_than_a_pipe_holds_arrives() -> None:
    assert len(in_process_copy(lambda: "x" * 1_000_000)) == 1_000_000


def test_a_copy_that_fails_is_reported() -> None:
    with pytest.raises(CopyError, match="status 1"):
        in_process_copy(lambda: 1 // 0)
