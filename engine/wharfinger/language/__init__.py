"""The policy language: text in, typed policy out. Knows neither NumPy nor a cluster."""
