"""The verbs of `wharf`, one module each, in folders by what people want to do: `author`, `ask`, `run`, `look`.

A module's name is the verb, with a dash where it has an underscore. It defines `command`, whose parameters are the flags and whose
docstring is the help. Adding a module adds a verb. A folder's docstring is its heading in `wharf --help`, and an example. Start with
`ask/dry_run` for a verb on files, with `run/run` for the daemon, with `look/status` for one that asks a running daemon.
"""

TASKS = ("author", "ask", "run", "look")
"""The folders in the order of `--help`."""
