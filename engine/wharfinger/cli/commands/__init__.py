"""The commands of `wharf`, in folders by task: `author`, `what_if`, `run`, `observe`.

A function `wharf_NAME` of a module here is the command NAME, with a dash where its name has an underscore. Its parameters are the flags,
and its docstring is the help. Adding a function adds a command. Most commands have their own module. A folder's docstring is its heading in
`wharf --help`, and an example. Start with `what_if/dry_run` for a command on files, with `run/run` for the daemon, with `observe/running`
for one that queries a running daemon.
"""

TASKS = ("author", "what_if", "run", "observe")
"""The folders in the order of `--help`."""
