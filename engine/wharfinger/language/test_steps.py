"""The lines of an embedded test as nodes of the syntax tree, and the fields that nodes and pods of a test may have."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum

import msgspec

from wharfinger.language import ast
from wharfinger.language.report.diagnostics import Span


class ObjectKind(Enum):
    """The objects that a test can declare."""

    NODE = "node"
    POD = "pod"


class Object(ast.TestStep, frozen=True, kw_only=True):
    """`node a like b { fields }` / `pod web { fields }`."""

    kind: ObjectKind
    name: str
    name_span: Span
    like: str | None
    like_span: Span | None
    fields: tuple[ast.ObjectField, ...]


class Running(ast.TestStep, frozen=True, kw_only=True):
    """`running web_1 like web on a { fields }`."""

    name: str
    name_span: Span
    like: str | None
    like_span: Span | None
    node: str
    node_span: Span
    fields: tuple[ast.ObjectField, ...]


class Metric(ast.TestStep, frozen=True, kw_only=True):
    """`metric cpu5m { a: 40%, b: 90% age 3min }`: sample values by node; `ages` runs parallel (None: fresh)."""

    name: str
    name_span: Span
    nodes: tuple[tuple[str, Span], ...]
    values: tuple[ast.Expr, ...]
    ages: tuple[ast.Expr | None, ...]


class Param(ast.TestStep, frozen=True, kw_only=True):
    """`param name = value`: sets a param for this test."""

    name: str
    name_span: Span
    value: ast.Expr


class At(ast.TestStep, frozen=True, kw_only=True):
    """`at "2026-03-29T01:30:00Z"`: the time from here on."""

    text: ast.String

    @property
    def time(self) -> datetime | None:
        """The time that is meant; None if the text is no time with a time zone."""
        try:
            found = datetime.fromisoformat(self.text.value)
        except ValueError:
            return None
        return found if found.tzinfo is not None and found.year in YEARS else None


START = datetime(2026, 1, 1, tzinfo=UTC)
"""The time of a test that does not say otherwise: fixed, so that a test always gives the same answer."""
YEARS = range(1970, 9999)


class Place(ast.TestStep, frozen=True, kw_only=True):
    """`place web`."""

    pod: str
    pod_span: Span


class PlaceGroup(ast.TestStep, frozen=True, kw_only=True):
    """`place group training`: all pods of the test that are in the group, at once."""

    group: str
    group_span: Span


class GroupState(Enum):
    """The outcomes that `expect group` can assert."""

    PLACED = "placed"  # at least as many members as are needed have nodes
    PENDING = "pending"  # no member was placed
    TOGETHER = "together"  # all placed members are on nodes with one value of a label


class ExpectGroup(ast.TestStep, frozen=True, kw_only=True):
    """`expect group training placed` · `… pending message "…"` · `… together in "example.com/rack"` (`key`)."""

    outcome: GroupState
    group: str
    group_span: Span
    key: ast.String | None = None
    message: ast.String | None = None


class Expectation(Enum):
    """The outcomes that an `expect` line can assert."""

    ON = "on"  # pod on node (several nodes: one of them)
    ON_DEVICE = "on device"  # pod has these devices of its node, and no others
    NOT_ON = "not on"
    PENDING = "pending"  # pod is not placed
    REJECTED = "rejected"  # node rejected by rule
    ACCEPTED = "accepted"  # node passes every filter
    SCORE = "score"  # node's points of a score
    EVICTED = "evicted"  # running pod has to leave
    NOT_EVICTED = "not evicted"
    HELD = "held"  # placed pod waits for a permit
    NOT_HELD = "not held"


ABOUT_PODS = frozenset(
    {
        Expectation.ON,
        Expectation.ON_DEVICE,
        Expectation.NOT_ON,
        Expectation.PENDING,
        Expectation.HELD,
        Expectation.NOT_HELD,
    }
)
"""The expectations whose subject is a pod that the test places."""


class Expect(ast.TestStep, frozen=True, kw_only=True):
    """`expect web on b`, or another of the sentences below.

    `expect web not on a` · `expect web pending message "…"` · `expect a rejected by rule message "…"` · `expect a accepted` ·
    `expect a scores rule == 50` (comparison operators as in expressions) · `expect low evicted` · `expect low not evicted` ·
    `expect web held message "…"` · `expect web not held`.

    `pod` is set by `expect web: a rejected …`; without it, an expectation about a node or a victim is about the pod placed last.
    """

    expectation: Expectation
    subject: str
    subject_span: Span
    nodes: tuple[tuple[str, Span], ...] = ()
    devices: tuple[str, ...] = ()
    pod: str | None = None
    pod_span: Span | None = None
    rule: str | None = None
    rule_span: Span | None = None
    message: ast.String | None = None
    op: ast.BinaryOp | None = None
    points: ast.Expr | None = None


class Form(Enum):
    """The form in which a value is written."""

    AMOUNT = "an amount"  # of the resource that the field, or the key in it, names: `4cpu`, `16Gi`, `2`
    TEXT = "a text"
    TRUTH = "true or false"
    WHOLE = "a whole number"
    DURATION = "a duration"
    TAINT = "a taint, `key=value:Effect` or `key:Effect`"
    ATTRIBUTE = "a text, a whole number, or true or false"


class Many(Enum):
    """The number of values of a field: one or several."""

    ONE = "one"
    LIST = "list"
    BY_KEY = "by key"
    DEVICES = "list of devices"  # objects with `DEVICE_FIELDS`


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a test object; `keys` are the only keys it has, empty where any is possible."""

    form: Form
    doc: str
    many: Many = Many.ONE
    keys: frozenset[str] = frozenset()
    choices: frozenset[str] = frozenset()


_LABELS = Field(form=Form.TEXT, many=Many.BY_KEY, doc="Labels.")
_ANNOTATIONS = Field(form=Form.TEXT, many=Many.BY_KEY, doc="Annotations.")
_AGE = Field(form=Form.DURATION, doc="The time since its creation.")

DEVICE_FIELDS: Mapping[str, Field] = {
    "driver": Field(form=Form.TEXT, doc="The driver; default: `gpu.example.com`."),
    "name": Field(form=Form.TEXT, doc="The name in its pool, which is the node; default: `gpu-0`, `gpu-1`, …."),
    "count": Field(form=Form.WHOLE, doc="The number of such devices; if it is given, numbers follow the name."),
    "attributes": Field(form=Form.ATTRIBUTE, many=Many.BY_KEY, doc="Attributes."),
    "versions": Field(form=Form.TEXT, many=Many.BY_KEY, doc="Attributes that are versions."),
    "capacity": Field(form=Form.AMOUNT, many=Many.BY_KEY, doc="Capacities."),
    "taints": Field(form=Form.TAINT, many=Many.LIST, doc="Taints, as kubectl writes those of nodes."),
}
NODE_FIELDS: Mapping[str, Field] = {
    "cpu": Field(form=Form.AMOUNT, doc="Allocatable CPU; default: 8."),
    "memory": Field(form=Form.AMOUNT, doc="Allocatable memory; default: 32Gi."),
    "ephemeral_storage": Field(form=Form.AMOUNT, doc="Allocatable local storage."),
    "pods": Field(form=Form.WHOLE, doc="The number of pods that the node takes; default: 110."),
    "resources": Field(form=Form.AMOUNT, many=Many.BY_KEY, doc="Allocatable extended resources."),
    "capacity": Field(form=Form.AMOUNT, many=Many.BY_KEY, doc="Capacity, where it differs from what is allocatable."),
    "labels": _LABELS,
    "annotations": _ANNOTATIONS,
    "taints": Field(form=Form.TAINT, many=Many.LIST, doc="Taints, as kubectl writes them."),
    "unschedulable": Field(form=Form.TRUTH, doc="True if the node is cordoned."),
    "conditions": Field(form=Form.TEXT, many=Many.BY_KEY, doc="Statuses of conditions.", choices=frozenset({"True", "False", "Unknown"})),
    "images": Field(form=Form.AMOUNT, many=Many.BY_KEY, doc="Images that the node has, with their sizes."),
    "devices": Field(form=Form.TEXT, many=Many.DEVICES, doc="Devices, as a driver publishes them in a ResourceSlice."),
    "age": _AGE,
}
POD_FIELDS: Mapping[str, Field] = {
    "namespace": Field(form=Form.TEXT, doc="Namespace; default: `default`."),
    "namespace_labels": Field(form=Form.TEXT, many=Many.BY_KEY, doc="Labels of its namespace, for all pods of that namespace."),
    "labels": _LABELS,
    "annotations": _ANNOTATIONS,
    "requests": Field(form=Form.AMOUNT, many=Many.BY_KEY, doc="Requests by resource."),
    "limits": Field(form=Form.AMOUNT, many=Many.BY_KEY, doc="Limits by resource."),
    "priority": Field(form=Form.WHOLE, doc="Priority; default: 0."),
    "priority_class": Field(form=Form.TEXT, doc="Name of the priority class."),
    "qos": Field(
        form=Form.TEXT,
        doc="Quality of service, where it differs from the requests.",
        choices=frozenset({"Guaranteed", "Burstable", "BestEffort"}),
    ),
    "owner": Field(
        form=Form.TEXT, many=Many.BY_KEY, doc="The controller that made the pod: its `kind` and `name`.", keys=frozenset({"kind", "name"})
    ),
    "node_selector": Field(form=Form.TEXT, many=Many.BY_KEY, doc="Labels that the node must have."),
    "tolerations": Field(form=Form.TEXT, many=Many.LIST, doc="Taints that the pod tolerates: `key=value:Effect`, `key:Effect` or `key`."),
    "host_ports": Field(form=Form.WHOLE, many=Many.LIST, doc="TCP ports of the node that the pod uses."),
    "images": Field(form=Form.TEXT, many=Many.LIST, doc="Images, one container each."),
    "devices": Field(form=Form.WHOLE, many=Many.BY_KEY, doc="The number of devices of each driver that a claim of the pod requests."),
    "holds": Field(form=Form.TEXT, many=Many.LIST, doc="Names of the devices that a running pod has; default: the first free ones."),
    "scheduler_name": Field(form=Form.TEXT, doc="The scheduler name of the pod."),
    "service_account": Field(form=Form.TEXT, doc="The pod's service account."),
    "age": _AGE,
}
FIELDS: Mapping[ObjectKind, Mapping[str, Field]] = {ObjectKind.NODE: NODE_FIELDS, ObjectKind.POD: POD_FIELDS}
