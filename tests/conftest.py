"""Settings of the property tests: no test asserts a time, and a change is not held up by an example that nobody has seen fail here."""

import os

from hypothesis import settings

settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")
