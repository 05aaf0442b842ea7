"""The base class for arguments of plugins of other packages. They import it as `wharfinger.framework.extension.Arguments`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Arguments(BaseModel):
    """Arguments of a plugin of another package, which declares a subclass as its `arguments_model`."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, defer_build=True)
