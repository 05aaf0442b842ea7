"""What evaluates compiled rules: registers and steps, selections of pods, columns that are kept.

`schedule` turns a graph into flat steps over registers, `rules` are the records of compiled rules, `selections` connects `pods where …`
with the model's counts, `row_code` is the faster form for one row. Start reading at `schedule`.
"""
