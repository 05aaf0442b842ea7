"""Custom resources: their models, and the definitions that an API server needs of them."""
