"""The syntax tree, and the formatter that writes it back as text.

`ast` and `test_steps` are the nodes; nothing about names or types is decided in them. Start reading at `ast`.
"""
