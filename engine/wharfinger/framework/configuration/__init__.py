"""Settings of the chain: weights, plugins and arguments, as Wharfinger's own settings or as a KubeSchedulerConfiguration.

`kubernetes_profiles` reads a KubeSchedulerConfiguration; `chain_settings` is what both forms become. Start with `chain_settings`.
"""
