"""The running pods that `--replace` selects."""

import pytest

from wharfinger.errors import WharfingerError
from wharfinger.model import objects
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.what_if.leaving_pods import replaced_pods


@pytest.fixture
def state():
    found = ClusterState()
    found.add_node(decode.convert({"metadata": {"name": "n"}}, objects.Node))
    pods = [
        {"metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}}},
        {"metadata": {"name": "db", "namespace": "shop", "labels": {"app": "db"}}},
        {"metadata": {"name": "train", "namespace": "ml"}},
        {"metadata": {"name": "mirror", "namespace": "ml", "annotations": {"kubernetes.io/config.mirror": "x"}}},
        {"metadata": {"name": "leaving", "namespace": "ml", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
    ]
    for pod in pods:
        found.add_pod(decode.convert({**pod, "spec": {"nodeName": "n"}}, objects.Pod))
    return found


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], []),
        (["all"], ["ml/train", "shop/db", "shop/web"]),
        (["namespace=shop"], ["shop/db", "shop/web"]),
        (["selector=app=web"], ["shop/web"]),
        (["selector=app in (web, db),app!=db"], ["shop/web"]),
        (["selector=!app", "selector=app=db"], ["ml/train", "shop/db"]),
    ],
)
def test_words_select_running_pods_by_namespace_or_labels(state, words, expected):
    assert [pod.key for pod in replaced_pods(state, words)] == expected


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("everything", "replace everything: expected all, namespace=NAME or selector=LABELS"),
        ("namespace=", "replace namespace=: expected all, namespace=NAME or selector=LABELS"),
        ("namespace=shpo", "replace namespace=shpo: no running pod matches; did you mean namespace=shop?"),
        ("selector=app=cache", "replace selector=app=cache: no running pod matches"),
        ("selector= ", "replace selector= : expected all, namespace=NAME or selector=LABELS"),
        ("selector=app=(", "selector"),
    ],
)
def test_values_of_replace_that_select_no_pod(state, word, said):
    with pytest.raises(WharfingerError) as error:
        replaced_pods(state, [word])
    assert str(error.value).startswith(said)
