"""What editors ask about a policy that is being written, as plain functions of a `Document`.

Places are offsets in characters, as everywhere in the language; `lsp.positions` knows how editors count. The language server (`lsp`) and
the pages of the playground call the same functions. Start with `document`.
"""
