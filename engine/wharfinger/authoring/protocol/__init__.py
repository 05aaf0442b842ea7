"""The Language Server Protocol: the server of `wharf lsp`, its answers, and the positions of editors.

`server` receives the requests, `answers` calls the functions of `authoring` and returns their results in the types of the protocol, and
`positions` converts between offsets and pairs of line and UTF-16 code unit. Start with `server`.
"""
