"""From the syntax tree to the typed policy: names resolved, dimensions checked, missing values accounted for, scores proved to stay in
0..100.
"""

from wharfinger.language.check.imports import import_key
from wharfinger.language.check.policy import check

__all__ = ["check", "import_key"]
