"""The plugins that compare requests with what nodes have, and the amounts they read.

Start with `node_resources_fit`; `resource_columns` reads the amounts for both.
"""
