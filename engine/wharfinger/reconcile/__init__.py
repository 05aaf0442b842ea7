"""The reconcilers: they bring about what custom resources ask for, and say on them what has become of it."""
