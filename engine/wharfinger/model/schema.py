"""Every attribute that a policy may name, in the order of the reference page.

Rows about nodes are in `schema_nodes`, rows about pods in `schema_pods`; each attribute is described in exactly one place.
"""

from __future__ import annotations

from typing import Final

from wharfinger.language.catalogue import Attribute
from wharfinger.model import schema_nodes, schema_pods

ATTRIBUTES: Final[tuple[Attribute, ...]] = (*schema_pods.ATTRIBUTES, *schema_nodes.ATTRIBUTES)
