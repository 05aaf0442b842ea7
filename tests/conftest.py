"""Settings of the property tests: no test asserts a time, and a change is not held up by an example that nobody has seen fail here.

Processes that tests interrupt inherit what a shell does to jobs in the background, which is to ignore interruptions."""

import os
import signal

from hypothesis import settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")
