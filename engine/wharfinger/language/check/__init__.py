"""From the syntax tree to the typed policy.

Names are resolved, dimensions checked, missing values accounted for, and scores proved to stay within 0..100 points.
"""

from wharfinger.language.check.declarations import import_key
from wharfinger.language.check.policy import check

__all__ = ["check", "import_key"]
