"""Texts made to cost as much as they can: generated, checked, compiled and decided with."""
