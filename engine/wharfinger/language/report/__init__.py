"""Findings: their position in a text, their message, and how they are printed.

Every stage of the language reports into `diagnostics`; `codes` has all codes, `render` makes text of the findings. Start reading at
`diagnostics`.
"""
