"""Plugin arguments: the base model that a plugin's own arguments extend.

Names in configuration files are Kubernetes' (camelCase); the same names work in a policy's `base kubernetes { PLUGIN with {…} }`.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Arguments(BaseModel):
    """Arguments of a plugin that takes none; a plugin with arguments declares a subclass as its `Arguments`."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, defer_build=True)
