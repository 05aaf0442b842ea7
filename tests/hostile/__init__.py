"""Hostile policy texts, as expensive as the language allows: generated, checked, compiled, and used for decisions."""
