"""Custom resources: their models, and the CustomResourceDefinitions made from them.

A field of a model is a field of the definition in deploy/crds/. Start with `models`; `fields` has what all models share.
"""
