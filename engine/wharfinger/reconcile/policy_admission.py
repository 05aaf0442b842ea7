"""What would become of a SchedulingPolicy if it were stored: the same steps as in the policy store, but for the trial on the cluster.

What only shows beside other policies, such as a name that is taken, is for the status: it may be gone by the time it matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.kube.custom_resources import SchedulingPolicy
from wharfinger.language.authority import TenantRights
from wharfinger.language.text_set import TextSet
from wharfinger.model import decode
from wharfinger.reconcile.policy_source import text_of
from wharfinger.runtime.policy_store.candidate import Outcome, build


def foreseen(obj: Mapping[str, Any], rights: TenantRights) -> Outcome | None:
    """What comes of the policy in an object as JSON has it; None for an object that is not one as we know it, which its schema judges."""
    try:
        policy = decode.convert(dict(obj), SchedulingPolicy)
    except InvalidObject:
        return None
    text = text_of(policy, rights)
    if not text.content:
        return None
    return build(text, TextSet(texts={text.name: text.content}, imports=False), {}, None)
