"""The program `wharf`, and `python -m wharfinger`."""

from __future__ import annotations

import gc
import os
import signal
import sys


def main() -> int:
    """The exit code of the command line.

    Until the command has been imported, an interrupt ends the process as it ends any other program: there is nothing to clean up, and
    an exception in the middle of an import would show as a traceback, or be swallowed there.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # and is not ignored, as under nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy would start threads for products of matrices; there are none here
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it would search all installed packages for plugins of its own
    from wharfinger.cli import main as run  # noqa: PLC0415 — see above

    code = run()
    gc.freeze()  # at the end, Python would look for unreachable objects in the whole cluster
    return code


if __name__ == "__main__":
    sys.exit(main())
