"""`wharf run` does not import modules that it does not need, and imports none in a step of its event loop."""

import subprocess
import sys

UNLOADED = ("kubernetes", "requests", "rich", "prometheus_api_client")
LOADED = (
    f"import sys, wharfinger.cli.commands.run.run, wharfinger.daemon.serve; print([name for name in {UNLOADED} if name in sys.modules])"
)
LATE = """
import sys
import wharfinger.cli.commands.run.run, wharfinger.daemon.serve
import numpy as np
before = set(sys.modules)
np.unique(np.arange(3)), np.isin(np.arange(3), [1]), np.union1d([1], [2])
print(sorted(set(sys.modules) - before))
"""


def printed_by(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_optional_packages_are_not_imported_at_the_start():
    assert printed_by(LOADED) == "[]"


def test_functions_of_numpy_import_nothing_later():
    assert printed_by(LATE) == "[]"
