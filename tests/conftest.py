"""How much the property tests try, by the environment variable ``HYPOTHESIS_PROFILE``.

``default`` is the same few examples every time, so that a red suite means a change, not luck. ``long`` is
many examples, fresh on each run; what it finds is printed as a blob to paste above the test.
"""

import os

from hypothesis import HealthCheck, settings

# Neither profile measures time: on a busy machine that would fail tests which are right.
_TIMELESS = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.large_base_example]}

settings.register_profile("default", max_examples=60, derandomize=True, **_TIMELESS)
settings.register_profile("long", max_examples=2000, derandomize=False, print_blob=True, **_TIMELESS)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
