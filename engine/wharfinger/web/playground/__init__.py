"""The playground: a page to write policies on. Start with `routes`, then `workbench`."""
