"""The pictures of simulate.md, plan.md and last-night.md in docs are those that ``tools.what_if_pictures`` draws."""

from __future__ import annotations

from pathlib import Path

from tools.what_if_pictures import TARGET, main


def test_pictures_show_the_examples_as_they_are_now(tmp_path: Path) -> None:
    main(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert (
        names == sorted(path.name for path in TARGET.iterdir()) == ["night.svg", "plan.svg", "shares.svg", "waits.svg"]
    )
    for name in names:
        assert (tmp_path / name).read_text() == (TARGET / name).read_text(), f"draw {name} again with tools"
