"""From a typed policy to an evaluator: compiled rules, and the interpreter as their reference.

`graph` is the intermediate representation into which expressions are lowered, and `evaluation` computes it for nodes. `rules` and `program`
put a whole policy together, `bound` evaluates it for one pod, and `interpreter` defines the same meaning once more for tests, explanations
and messages. `cost` estimates what a policy costs before it decides. Start reading at `program`.
"""
