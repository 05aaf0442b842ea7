"""The plugins NodeResourcesFit and NodeResourcesBalancedAllocation, which compare requests with the resources of nodes.

Start with `node_resources_fit`; `resource_columns` reads the amounts for both.
"""
