"""The policy language: text in, typed policy out. It imports neither NumPy nor anything about clusters.

A text becomes tokens (`parse`) and a syntax tree (`ast`, with the lines of tests in `test_steps`). The checker makes the typed policy of it
(`check`, `semantics`). Every stage reports its findings (`report`). `format` writes a tree as text in one style. Start reading at
`load`, which calls them in this order.
"""
