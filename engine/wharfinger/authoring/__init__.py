"""Answers for editors about a policy that is being written, as plain functions of a `Document`.

Positions are offsets in characters. `protocol` is the language server, which converts them for editors; the playground calls the same
functions. There is a module or a folder for each question of an editor. Start with `document`.
"""
