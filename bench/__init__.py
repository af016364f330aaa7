"""Benchmarks: each module is a script that prints one table. Never part of the tests."""
