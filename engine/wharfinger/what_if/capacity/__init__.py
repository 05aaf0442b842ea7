"""How many more pods fit, where, what stops the next one, and what one change each would add.

Start with `count`. `room_count` counts the pods of workloads and the groups that fit, `further_pods` makes them.
"""
