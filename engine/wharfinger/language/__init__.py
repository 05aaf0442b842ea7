"""The policy language: text in, typed policy out. It knows neither NumPy nor a cluster.

A text becomes tokens and a syntax tree (`parse`, `syntax`), the checker makes the typed policy of it (`check`, `semantics`), and every
stage reports its findings (`report`). Start reading at `load`, which calls them in this order.
"""
