"""What all tests need to hold on a busy machine, and in little time."""

import os

from hypothesis import HealthCheck, settings

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each of the many processes compiles all of the house anew

settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")
