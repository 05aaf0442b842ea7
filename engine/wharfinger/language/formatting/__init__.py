"""The formatter: syntax tree to text in one style.

It parses what it has written and compares the two trees, so that formatting never changes a policy. Start reading at `format`.
"""
