"""Rules that take a while, by the clock of a test."""


def slow_rule(plugin, prepare, methods, take):
    """Have `take` called before each of these methods of the rules that a plugin prepares by its method `prepare`."""
    usual = getattr(plugin, prepare)

    def slower(*arguments):
        rule = usual(*arguments)
        for name in methods:
            setattr(rule, name, slowed(getattr(rule, name)))
        return rule

    def slowed(method):
        return lambda *asked: (take(), method(*asked))[1]

    setattr(plugin, prepare, slower)
