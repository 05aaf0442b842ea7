"""The builtin functions of the language: one record each, with types, documentation, scalar reference and kernel.

Every module has one family of functions; a new function is one more record there. `signature` defines the declaration of a record and the
arguments of a function, `texts` evaluates functions of strings once per distinct string, and `catalogue` lists everything that a policy may
name. Start reading at `numbers` for plain functions, at `resources` for those that read the cluster.
"""

from wharfinger.builtins.catalogue import CATALOGUE

__all__ = ["CATALOGUE"]
