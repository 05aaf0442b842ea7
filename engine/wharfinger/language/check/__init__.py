"""Checks a syntax tree and makes the typed policy.

Names are resolved, dimensions checked, missing values accounted for, and scores proved to stay within 0..100 points.
"""

from wharfinger.language.check.imports import CheckedLibraries, import_key
from wharfinger.language.check.policy import check

__all__ = ["CheckedLibraries", "check", "import_key"]
