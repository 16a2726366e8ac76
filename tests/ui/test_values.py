"""Values of documents."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubebase.timestamps import moment_of
from pumice.ui.values import time_text


@given(st.integers(1, 4_000_000_000_000_000))
def test_the_text_of_a_time_names_that_time(moment: int) -> None:
    text = time_text(moment)
    assert text is not None
    assert moment_of(text) == moment


def test_a_time_is_written_as_short_as_it_can_be() -> None:
    assert [time_text(moment) for moment in (0, 2_000_000, 2_500_000, 2_500_001)] == [
        None,
        "1970-01-01T00:00:02Z",
        "1970-01-01T00:00:02.5Z",
        "1970-01-01T00:00:02.500001Z",
    ]
