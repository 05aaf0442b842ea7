"""The scheduling cycle of groups: a group is decided as a whole, and its members are assumed at once and bound together."""
