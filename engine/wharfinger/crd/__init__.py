"""Custom resources: their models, and the CustomResourceDefinitions made from them.

A field of a model is a field of the definition in deploy/crds/. Start with `scheduling_policy`; `fields` has what all models share.
"""
