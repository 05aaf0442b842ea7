"""Selectors of devices: CEL expressions of DeviceClasses and ResourceClaims, as an API server of Kubernetes 1.36 reads them.

The language itself is cel-expr-python's (Google's own implementation). `library` adds the functions of Kubernetes, `selector` the variable
`device`, and the texts of errors as kube-scheduler shows them; `expression_text` is what the text of an expression says before that.
`macros` and `foreign_equality` change the compiled expression (`syntax_tree`), where the runtime lacks what Kubernetes has.
"""
