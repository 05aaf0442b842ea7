"""Text to syntax tree, with recovery from syntax errors.

Tokens (`tokens`), Lark's parser (`grammar`, `interactive`), recovery (`parser`, `repairs`), and the nodes made of Lark's tree
(`*_nodes`). Start reading at `parser`. This is the only package that imports Lark.
"""
