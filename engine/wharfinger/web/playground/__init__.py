"""The playground: a page for writing policies. Start with `workbench`: its routes and their responses."""
