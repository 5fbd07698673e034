"""Benchmarks of the project; each is a module run with ``python -m``."""
