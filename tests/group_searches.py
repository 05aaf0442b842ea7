"""Searches for places of groups, run to their end in one go."""

from wharfinger.groups.placing import placing
from wharfinger.groups.preempting import preempting
from wharfinger.steps import at_once


def place(*given, **more):
    """The answer of `placing`."""
    return at_once(placing(*given, **more))


def preempt(*given, **more):
    """The answer of `preempting`."""
    return at_once(preempting(*given, **more))
