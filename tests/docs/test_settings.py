"""Every setting is described where it is defined: the table in docs/operating/running.md and the help of the flags are made from there."""

from wharfinger.daemon.settings import Settings
from wharfinger.daemon.settings_fields import settings_of


def test_every_field_has_a_description():
    found = list(settings_of(Settings))

    assert [".".join(each.path) for each in found if not each.field.description] == ["apiVersion", "kind"]
    assert len(found) > 50
