"""docs/running.md has every field of the settings."""

import re
import typing
from pathlib import Path

from pydantic import BaseModel

from wharfinger.daemon.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "running.md"


def fields_of(model):
    for name, field in model.model_fields.items():
        yield field.alias or name
        for inner in (field.annotation, *typing.get_args(field.annotation)):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from fields_of(inner)


def test_every_field_is_on_the_page():
    rows = "\n".join(line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("|"))
    shown = set(re.findall(r"[`.\] ](\w+)`", rows))

    assert set(fields_of(Settings)) - {"apiVersion", "kind", "profiles"} <= shown
