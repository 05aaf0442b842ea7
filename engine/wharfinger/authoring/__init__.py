"""Answers for editors about a policy that is being written, as plain functions of a `Document`.

Places are offsets in characters, as everywhere in the language; `positions` converts between offsets and the positions of editors.
`language_server` and the pages of the playground call the same functions. Start with `document`; `completion` lists what can be written at
a position.
"""
