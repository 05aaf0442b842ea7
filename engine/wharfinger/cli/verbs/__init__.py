"""The verbs of `wharf`, one module each: the module's name is the verb, with a dash where it has an underscore.

Each module defines `command`, whose parameters are the flags and whose docstring is the help. Adding a module adds a verb. Start with
`dry_run` for a verb on files, with `run` for the daemon, with `status` for one that asks a running daemon.
"""
