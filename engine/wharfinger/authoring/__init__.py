"""What editors ask about a policy that is being written, as plain functions of a `Document`.

Places are offsets in characters, as everywhere in the language; `positions` knows how editors count. `language_server` and the pages of the
playground call the same functions. Start with `document`; `completion` says what may be written at a place.
"""
