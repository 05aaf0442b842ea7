"""Compiles a typed policy into rules over columns; the interpreter is their reference.

`graph` is the intermediate representation into which expressions are lowered. `rules` and `program` put a whole policy together; `schedule`
turns its graph into flat steps over registers, `selections` connects `pods where …` with the model's counts, and `row_code` is the faster
form for one row. `bound` evaluates the policy for one pod, and `interpreter` is the reference implementation, for tests, explanations and
messages. `cost` estimates what a policy costs before it decides. Start reading at `program`.
"""
