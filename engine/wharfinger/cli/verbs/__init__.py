"""The verbs of `wharf`, in folders by task: `author`, `ask`, `run`, `look`.

A function `wharf_NAME` of a module here is the verb NAME, with a dash where its name has an underscore. Its parameters are the flags and
its docstring is the help. Adding a function adds a verb. Most verbs have their own module. A folder's docstring is its heading in `wharf
--help`, and an example. Start with `ask/dry_run` for a verb on files, with `run/run` for the daemon, with `look/running` for one that
queries a running daemon.
"""

TASKS = ("author", "ask", "run", "look")
"""The folders in the order of `--help`."""
