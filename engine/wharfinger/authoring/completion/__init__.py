"""Completion and signature help at a position of a policy text.

`place` says what is at the position, `candidates` lists the names and keywords that may be written there, and `quoted_texts` lists what may
be written inside quotes. Start with `candidates.candidates`.
"""
