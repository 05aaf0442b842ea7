"""The scheduling framework: extension points, the chain of plugins and policies, and the cycle that decides."""
