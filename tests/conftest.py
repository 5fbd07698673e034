"""Settings of every test: properties are tried on the same examples in each run, without a clock."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "majorica",
    max_examples=200,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("majorica")
