"""Selectors of devices: CEL expressions of DeviceClasses and ResourceClaims, as an API server of Kubernetes 1.36 reads them.

The language itself is cel-expr-python's (Google's own implementation). `library` adds the functions of Kubernetes (`addresses`, `urls` and
`formats` do the work of theirs), `selector` the variable `device`, what an expression reads of it, and the texts of errors as
kube-scheduler shows them. `rewriting` changes the compiled expression (`syntax_tree`) where the runtime lacks what Kubernetes has. Before
it is evaluated, `cost` bounds what it costs, and `optionals` refuses what would end the process.
"""
