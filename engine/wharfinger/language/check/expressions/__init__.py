"""The types of expressions: one module for each family of forms.

`check.context` says where an expression stands and calls these modules through `infer`. Start reading at `values`, then `operators`.
"""
