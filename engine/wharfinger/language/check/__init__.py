"""Checks a syntax tree and makes the typed policy.

Names are resolved, dimensions checked, missing values accounted for, and scores proved to stay within 0..100 points. `declarations`,
`rules`, `statements` and `tests` check the parts of a file, and `expressions` has the types of expressions. `lints` warns about valid
policies. Start with `policy`, which calls them in order, then `context`.
"""

from wharfinger.language.check.imports import CheckedLibraries, import_key
from wharfinger.language.check.policy import check

__all__ = ["CheckedLibraries", "check", "import_key"]
