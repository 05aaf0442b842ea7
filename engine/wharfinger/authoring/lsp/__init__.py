"""The language server: the functions of `authoring` in the types of the Language Server Protocol.

Start with `language_server`, which says which request gets which answer of `protocol_answers`.
"""
