"""Benchmarks: workloads as data, one runner for Pumice, and other schedulers on the same workloads."""
