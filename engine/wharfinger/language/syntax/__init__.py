"""The nodes of the syntax tree.

Nothing about names or types is decided in them. Start reading at `ast`; `test_steps` has the lines of embedded tests.
"""
