"""Amounts, typed and shown."""

import click
import pytest

from pumice.cli.cluster.resource_quantities import format_quantities, parse_quantities

PARAM = click.Option(["--requests"])
CONTEXT = click.Context(click.Command("x"))


def read(text):
    return parse_quantities(CONTEXT, PARAM, text)


def test_parse_valid_quantities():
    assert read("cpu=2, memory=4Gi,nvidia.com/gpu=1") == {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"}
    assert read(None) == read("") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cpu", "'cpu' is not NAME=QUANTITY; for example cpu=2,memory=4Gi"),
        ("cpu=", "'cpu=' is not NAME=QUANTITY"),
        ("=2", "'=2' is not NAME=QUANTITY"),
        ("cpu=2,,", "'' is not NAME=QUANTITY"),
        ("cpu=1,cpu=2", "cpu is given twice"),
        ("memory=4GB", "memory: '4GB' is not a quantity; write 4G (powers of 1000) or 4Gi (powers of 1024)"),
        ("cpu=-1", "cpu: -1 is negative"),
    ],
)
def test_parse_rejects_invalid_quantities(text, words):
    with pytest.raises(click.BadParameter, match=r".") as refused:
        read(text)
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("amounts", "shown"),
    [
        (None, "-"),
        ({}, "-"),
        # cpu and memory first, then by name
        ({"nvidia.com/gpu": "8", "memory": "16Gi", "cpu": 4, "a/b": 1}, "cpu=4,memory=16Gi,a/b=1,nvidia.com/gpu=8"),
        ({"cpu": "500m"}, "cpu=0.5"),
        ({"cpu": "10666m"}, "cpu=10.666"),
        ({"cpu": "33333333u"}, "cpu=33.333"),
        # 45812984490 / 2**30 = 42.666...
        ({"memory": "45812984490"}, "memory=42.7Gi"),
        ({"memory": "1023"}, "memory=1023"),
        ({"memory": "2e18"}, "memory=1.7Ei"),
        ({"memory": "nonsense"}, "memory=nonsense"),
        ({"cpu": "0"}, "cpu=0"),
    ],
)
def test_format_quantities(amounts, shown):
    assert format_quantities(amounts) == shown


def test_zeros_may_be_left_out():
    assert format_quantities({"cpu": "0", "memory": "1Gi"}, zeros=False) == "memory=1Gi"
    assert format_quantities({"cpu": "0"}, zeros=False) == "-"
