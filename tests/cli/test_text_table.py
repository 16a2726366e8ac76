"""Columns line up, whatever stands in them."""

import click
import pytest

from pumice.cli.text_table import Column, Table, display_width

COLUMNS = [Column("Name", min_width=6), Column("Count", align_right=True), Column("Note")]


def printed(rows, columns=COLUMNS, **options):
    table = Table(columns, **options)
    table.widen(rows)
    return [click.unstyle(table.heading()), *(click.unstyle(table.line(row)) for row in rows)]


def test_numbers_stand_right_and_nothing_trails():
    assert printed([["a", "1", "x"], ["longer-name", "1000000", ""]]) == [
        "Name           Count  Note",
        "a                  1  x",
        "longer-name  1000000",
    ]


def test_column_has_minimum_width_and_watch_width():
    columns = [Column("A", min_width=3, watch_width=5), Column("B")]
    assert printed([["x", "y"]], columns) == ["A    B", "x    y"]
    assert printed([["x", "y"]], columns, room=True) == ["A      B", "x      y"]


def test_text_table_without_rows_prints_header():
    assert printed([]) == ["Name    Count  Note"]


def test_a_row_that_comes_later_widens_the_table():
    table = Table(COLUMNS)
    table.widen([["a", "1", ""]])
    assert table.line(["a", "1", "x"]) == "a           1  x"
    table.widen([["a", "1234567", ""]])
    assert table.line(["a", "1", "x"]) == "a             1  x"


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("abc", 3),
        ("é", 1),
        ("e\u0301", 1),
        ("日本", 4),
        ("\uff46", 2),
        (click.style("ab", fg="red"), 2),
        ("a\u200bb", 2),
        ("", 0),
    ],
)
def test_display_width_of_letters(text, places):
    assert display_width(text) == places


def test_letters_of_two_places_keep_the_next_column_in_line():
    _, first, second = printed([["日本日本", "1", "x"], ["abcdefgh", "1", "x"]])
    assert first == "日本日本      1  x" and second == "abcdefgh      1  x"
