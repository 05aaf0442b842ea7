"""How a compiled policy is evaluated: registers and steps, selections of pods, and a policy bound to one pod.

`schedule` turns a graph into flat steps over registers, `selections` connects `pods where …` with the model's counts, `row_code` is the
faster form for one row. Start reading at `bound`, which evaluates the rules of one policy for one pod.
"""
