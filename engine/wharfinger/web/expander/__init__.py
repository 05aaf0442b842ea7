"""The gRPC expander that cluster-autoscaler asks which group of nodes to grow.

Start with `service`. `messages` reads what cluster-autoscaler sends, by the definitions in `expander.proto`.
"""
