"""The playground: a page to write policies on. Start with `workbench`: its routes, and what they answer."""
