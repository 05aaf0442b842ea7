"""SchedulingPolicy: a policy as an object of the cluster."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from wharfinger.crd.fields import Conditions, Count, Generation, NamespaceName, Params, Part, PolicyName, PolicyText, Sentence, Word

MOST_DIAGNOSTICS = 20
MOST_REMEMBERED = 65_536
"""Characters of a text that the status repeats."""


class PolicyMode(StrEnum):
    """What a policy does: decide, only be compared with what is decided, or nothing."""

    ENFORCE = "Enforce"
    SHADOW = "Shadow"
    OFF = "Off"


class SchedulingPolicySpec(Part):
    """What the policy is."""

    source: PolicyText = Field(description="The text of the policy. It may hold tests; it must not import files.")
    mode: PolicyMode = Field(
        default=PolicyMode.ENFORCE,
        description="`Enforce` lets it decide, `Shadow` counts where it would have decided otherwise, `Off` keeps it out.",
    )
    params: Params = Field(
        default_factory=dict, description='Values of its params as in a policy\'s text ("10%", "2Gi"), within their ranges.'
    )
    namespace: NamespaceName | None = Field(
        default=None,
        description="The namespace whose policy it is: it governs and sees the pods of that one only. By default it is the cluster's.",
    )


class PolicyDiagnostic(Part):
    """One finding about the text."""

    line: Count = Field(description="The line, counted from 1.")
    column: Count = Field(description="The column, counted from 1.")
    code: Word = Field(description="The stable code of the finding; docs/errors has a page for each.")
    severity: Word = Field(default="error", description="`error` or `warning`.")
    message: Sentence = Field(description="What is wrong.")
    help: Sentence | None = Field(default=None, description="How to mend it.")


class LastKnownGood(Part):
    """The version that decides, so that a scheduler that starts while `spec` is broken can go on with it."""

    source: Annotated[str, Field(min_length=1, max_length=MOST_REMEMBERED)] = Field(description="The text of the policy.")
    params: Params = Field(default_factory=dict, description="The values of its params.")
    generation: Generation = Field(description="The generation of the object that it was.")
    since: datetime = Field(description="Since when it decides.")


class SchedulingPolicyStatus(Part):
    """What has become of the policy."""

    observed_generation: Generation | None = Field(default=None, description="The generation that all of this is about.")
    policy: PolicyName | None = Field(default=None, description="The name that the text gives to the policy.")
    authority: Word | None = Field(default=None, description="Whose policy it is: `cluster`, or `namespace` and its name.")
    revision: Word | None = Field(default=None, description="The revision (SHA-256) of the policy that is active, if one is.")
    last_known_good: LastKnownGood | None = Field(
        default=None, description="The version that decides, if its text has no more than 65,536 characters."
    )
    conditions: Conditions = Field(default=(), description="`Ready`, `Compiled`, `Tested`, `Active` and `MetricsAvailable`.")
    diagnostics: Annotated[tuple[PolicyDiagnostic, ...], Field(max_length=MOST_DIAGNOSTICS)] = Field(
        default=(), description="What is wrong with the text, the first findings."
    )
    matched: Count | None = Field(default=None, description="How many pods it governs.")
    eligible: Count | None = Field(default=None, description="How many nodes its rules let a typical pod of those go to.")
    nodes: Count | None = Field(default=None, description="How many nodes there are.")
