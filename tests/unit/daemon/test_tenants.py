"""The rights that the settings give policies of namespaces, up to a policy that imports what they share."""

import pytest

from wharfinger.builtins import CATALOGUE
from wharfinger.daemon.policies import MAX_LIBRARY_BYTES, rights_of
from wharfinger.daemon.settings import read_settings
from wharfinger.errors import UsageError
from wharfinger.language.load import TextSet
from wharfinger.language.report.diagnostics import Diagnostics, PolicyError
from wharfinger.language.semantics.authority import CLUSTER, TenantPolicies

HEAD = "apiVersion: config.wharfinger.dev/v1alpha1\nkind: WharfingerConfiguration\n"
LIBRARY = 'import "owners.policy" as owners\nmetric load: percent = prometheus("q", server: "inner", node: "node")\n'
OWNERS = 'let team = node.annotations["owner"] ?? ""\n'
POLICY = """import "{}" as shared
policy "p"
filter f {{ require shared.load < 90% on missing pass }}
"""


def rights(folder, text=""):
    path = folder / "config.yaml"
    path.write_text(HEAD + text)
    return rights_of(read_settings(str(path)))


@pytest.fixture
def shared(tmp_path):
    """The rights of settings that share two libraries."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "load.policy").write_text(LIBRARY)
    (tmp_path / "shared" / "owners.policy").write_text(OWNERS)
    return rights(tmp_path, "tenantLibraries: [shared/]\n")


def found(text, authority):
    diagnostics = Diagnostics()
    policy = TextSet(texts={"schedulingpolicies/a.b": text.encode()}, imports=False).check(
        "schedulingpolicies/a.b", CATALOGUE, diagnostics, authority
    )
    return policy.policy, [f"{each.code.name} {each.message}" for each in diagnostics if each.severity.value == "error"]


def test_by_default_policies_of_namespaces_are_restricted(tmp_path):
    authority = rights(tmp_path).of("team-a")

    assert (authority.allowed, authority.servers, authority.libraries) == (TenantPolicies.RESTRICTED, frozenset(), ())
    assert rights(tmp_path).of(None) is CLUSTER


def test_policies_of_namespaces_import_shared_metrics_that_they_could_not_declare(shared):
    policy, errors = found(POLICY.format("load.policy"), shared.of("team-a"))

    assert errors == []
    assert [metric.name for metric in policy.metrics] == ["shared.load"]


@pytest.mark.parametrize("path", ["other.policy", "../../etc/passwd", "config.yaml"])
def test_no_other_library_can_be_imported(shared, path):
    assert found(POLICY.format(path), shared.of("team-a"))[1] == [
        f"P308 cannot import `{path}`: policies of a namespace import only `load.policy`, `owners.policy`"
    ]


def test_libraries_shared_with_namespaces_are_not_for_a_single_policy_of_the_cluster(shared):
    assert "has no other files to import" in found(POLICY.format("load.policy"), shared.of(None))[1][0]


REFUSED = {
    "no such file": ("tenantLibraries: [none.policy]", UsageError, "none.policy"),
    "a policy": ("tenantLibraries: [a.policy]", UsageError, "is a policy, not a library"),
    "one that cannot be read": ("tenantLibraries: [broken.policy]", PolicyError, "P1"),
    "two of one name": ("tenantLibraries: [good.policy, more/]", UsageError, "two files called good.policy"),
    "too much": ("tenantLibraries: [long.policy]", UsageError, f"more than {MAX_LIBRARY_BYTES:,} bytes"),
    "a server that is not there": ("tenantServers: [central]", UsageError, "tenantServers names central"),
    "another word": ("tenantPolicies: Maybe", UsageError, "tenantPolicies"),
}


@pytest.mark.parametrize(("text", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_settings_that_do_not_fit(tmp_path, text, error, message):
    (tmp_path / "more").mkdir()
    for name, content in {
        "a.policy": 'policy "a"\nscore s = 1\n',
        "broken.policy": "let = 1\n",
        "good.policy": "let x = 1\n",
        "more/good.policy": "let x = 1\n",
        "long.policy": "# long\n" * 10_000 + "let x = 1\n",
    }.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(error, match=message.replace("(", "")):
        rights(tmp_path, text + "\n")
