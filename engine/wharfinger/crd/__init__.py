"""Custom resources: their names and labels, their models, and the CustomResourceDefinitions made from them.

`models` has the fields, each of which is a field of the definition in deploy/crds/, and `definition` makes these files from them. Start
with `models`.
"""

GROUP = "scheduling.wharfinger.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "wharfinger"
"""Who manages what carries `MANAGED_BY`, and the field manager of everything that is applied."""

APP_LABEL = f"{GROUP}/app"
"""On everything made for a PolicyApp: the app's name."""

NAMESPACE_LABEL = f"{GROUP}/app-namespace"
"""On a SchedulingPolicy made for a PolicyApp: the namespace of the app."""

POLICY_LABEL = f"{GROUP}/policy"
"""On the pods of a PolicyApp: the policy of the app. A policy can say `for pods where` this label has its name."""

FINALIZER = f"{GROUP}/teardown"
"""On a PolicyApp: something is to be removed by us before it may go."""
