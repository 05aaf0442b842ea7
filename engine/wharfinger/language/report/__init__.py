"""Where something stands in a text, what is wrong with it, and how that is shown.

Every stage of the language reports into `diagnostics`; `codes` has all codes, `render` makes text of the findings. Start reading at
`diagnostics`.
"""
