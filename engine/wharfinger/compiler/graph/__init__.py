"""The intermediate representation: operations, lowering of typed expressions, and passes over the graph.

`ir` defines the graph in which nothing is missing, `operations` and `leaves` what its nodes compute and read, `lower` and `lower_calls`
turn typed expressions into it, and `passes` simplify it. Start reading at `ir`.
"""
