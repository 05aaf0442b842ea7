"""The types of expressions: one module for each family of forms.

`check.context` has the position of an expression, and calls these modules through `infer`. Start reading at `values`, then `operators`.
"""
