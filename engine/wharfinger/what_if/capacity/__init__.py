"""How many more pods fit, where, what stops the next one, and what one change each would add.

Start with `count`. `room_count` counts the pods of one workload, `further_pods` makes them, `smaller_pods` has the ones with less of a
resource.
"""
