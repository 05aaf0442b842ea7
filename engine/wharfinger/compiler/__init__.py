"""From typed policies to decisions: intermediate representation, passes, kernels, and the reference interpreter."""
