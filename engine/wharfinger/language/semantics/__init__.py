"""The parts of a checked policy: types, units, operators, attributes and functions, typed expressions.

The checker makes these values, and the compiler, the interpreter and the reports read them. Start reading at `types`, then `typed`.
"""
