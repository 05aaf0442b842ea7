"""`wharf run` does not import modules that it does not need."""

import subprocess
import sys

SPARED = ("kubernetes", "requests", "rich", "prometheus_api_client")
LOADED = (
    f"import sys; import wharfinger.cli.verbs.run.run, wharfinger.daemon.serve; print([name for name in {SPARED} if name in sys.modules])"
)


def test_optional_packages_are_not_imported_at_the_start():
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
