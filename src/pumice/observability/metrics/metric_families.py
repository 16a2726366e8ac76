"""Metrics with few words: the families of the client library, made from plain numbers."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, UnknownMetricFamily


def gauge(name: str, text: str, value: float) -> Metric:
    """One number."""
    return GaugeMetricFamily(name, text, value=value)


def gauges(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    """A number for each value of a label."""
    family = GaugeMetricFamily(name, text, labels=(label,))
    for key, value in values.items():
        family.add_metric((key,), value)
    return family


def counts(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    """A counter with one label; ``_total`` is appended to its name."""
    family = CounterMetricFamily(name, text, labels=(label,))
    for key, value in values.items():
        family.add_metric((key,), value)
    return family


def count(name: str, text: str, value: float) -> Metric:
    """A counter; ``_total`` is appended to its name."""
    return CounterMetricFamily(name, text, value=value)


def as_named(name: str, text: str, values: Mapping[tuple[tuple[str, str], ...], float]) -> Metric:
    """A counter whose name does not end as the library wants it, hence without a type."""
    family = UnknownMetricFamily(name, text)
    for labels, value in values.items():
        family.add_sample(name, dict(labels), value)
    return family
