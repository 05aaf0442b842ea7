"""Statements about policies that hold for all pods and all clusters, proved by z3 or refuted by a test that fails.

A statement is turned into the question whether it can be false: what the policy reads of one pod and of one or two nodes become unknowns,
and z3 looks for values of them. Where there are none, the statement is proved. Otherwise the values are written as a `test` block, and only
what the interpreter and the chain confirm is shown. Start with `statements`, which has the statements; `question` asks z3, `encoding` has
the meaning of expressions, `example` the test blocks. The extra `prove` installs z3; nothing else imports it.
"""
