"""Functions of the language: one record each, with signature, documentation, scalar reference and vector kernel."""

from wharfinger.builtins.catalogue import CATALOGUE

__all__ = ["CATALOGUE"]
