"""Every diagnostic code: its severity, its title and its meaning.

A code is never reused for something else. Its page in `docs/errors/` is made from this record and from the case file of the same name in
`tests/cases/diagnostics/`, which holds a policy that raises it and the corrected one.

    P0xx files and limits · P1xx syntax · P2xx types and units · P3xx names · P4xx missing values · P5xx scores · P6xx structure · P7xx
    tests · P8xx whose policy it is · L… lints
"""

from __future__ import annotations

from enum import Enum

import msgspec


class Severity(Enum):
    """An error keeps a policy from compiling; a warning does not."""

    ERROR = "error"
    WARNING = "warning"


class Record(msgspec.Struct, frozen=True):
    """The description of a code."""

    title: str
    explanation: str
    severity: Severity = Severity.ERROR


class Code(Enum):
    """The codes, in order."""

    # ── P0xx files and limits ──
    P001 = Record(
        "nothing in the file",
        "A policy file has a policy, a declaration or a test. An empty file is usually the result of a failed copy, so it is an error.",
    )
    P002 = Record("not a text file", "The file contains bytes that are not text. Policies are text, encoded in UTF-8.")
    P003 = Record("not UTF-8", "Policies are encoded in UTF-8. Save the file in that encoding.")
    P004 = Record(
        "file too large",
        "A policy file is at most 256 KiB together with all that it imports, so that checking one never takes long. Usual policies have "
        "a few KiB.",
    )
    P005 = Record(
        "nested too deep",
        "Brackets and operators can be nested 100 deep. Name the parts with `let`, or test membership with `in [...]` "
        "instead of a long chain of `or`.",
    )
    P006 = Record(
        "too many rules",
        "One file has at most 500 declarations and rules, with at most 1,000 requirements. Several policies may govern one pod, so a large "
        "set can be split freely.",
    )
    P007 = Record(
        "too many words",
        "One file has at most 30,000 words and symbols together with all that it imports, so that checking it never takes long. "
        "Those in the placeholders of messages count too.",
    )
    P008 = Record(
        "too many tests",
        "One file has at most 500 tests. Put the rest into a `*_test.policy` file next to the policy. The tests of a policy run whenever "
        "it is read, so together they need at most 120,000 evaluations. For each pod that is placed, every rule is evaluated for every "
        "node, and the decision counts as 100 more, with 4 for each node and 1 for each pod that is placed already; "
        "all of this three times in a test whose pods have priorities. A test counts as 20, and each of its nodes "
        "and pods as 10. The first test that sets params to some values counts as 100 more, and each operation of the rules as 9, because "
        "the policy is compiled with them. Every selection is evaluated for every pod, and all rules for one node for each "
        "expectation. A rule with many operations counts once for each 16 of them. The fields of the objects have at most 2,000,000 "
        "characters together; an object `like` another one has all of its fields.",
    )
    P009 = Record(
        "too much to calculate",
        "The rules of one policy together need at most 5,000 operations: values that are read, operators, calls, points of a curve and "
        "requirements of a selector. The operations of a `let` count once in each rule that uses it. Each operation takes time in every "
        "decision. Several policies can govern one pod, so a large set can be split freely.",
    )
    P010 = Record(
        "too complex to check",
        "Whether a value may be missing where a `let` is used depends on the guards on every path to that place. A chain of lets that each "
        "use another one under different guards has too many paths to check. Regular expressions are expensive to check as well, long ones "
        "more than short ones: a policy can have about a hundred with 20 characters. The check counts its steps and stops after 100,000, "
        "on every machine at the same place. Usual policies need a few hundred.",
    )
    P011 = Record(
        "name too long",
        "A name has at most 253 characters, like names of objects in Kubernetes. A declaration of an imported file has the names of all "
        "imports that lead to it in front of its own name; these have at most 1,000 characters together.",
    )
    P012 = Record(
        "character that cannot be seen",
        "Control characters, and characters that reverse the direction of what follows (U+202A to U+202E, U+2066 to U+2069), can make a "
        "policy look different from what it says, in an editor as in a message. They are not allowed in strings and comments either.",
    )
    # ── P1xx syntax ──
    P100 = Record("unexpected word or symbol", "This word or symbol cannot follow the text before it. The message lists what can.")
    P101 = Record("string without an end", "A string ends with the quote it began with, on the same line.")
    P102 = Record("character without meaning", "This character is not part of the language outside of strings and comments.")
    P103 = Record(
        "operator of another language",
        "Operators are `and`, `or`, `not`, `==`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `not in`, `matches`, `??`, `+`, `-`, `*` and `/`.",
    )
    P104 = Record("bracket not closed", "Every `(`, `[` and `{` is closed by its partner.")
    P105 = Record("closing bracket too many", "No bracket is open here, or the last one that was opened is of another kind.")
    P106 = Record("comparisons in a chain", "`a < b < c` would compare a truth value with `c`. Join two comparisons with `and`.")
    P107 = Record("`=` and `==` mixed up", "`=` gives a name its value; `==` compares.")
    P108 = Record(
        "dash in a name",
        "`a-b` is a subtraction. Names are made of letters, digits and `_`; names of nodes and pods of tests can also be in quotes.",
    )
    P109 = Record(
        "malformed number",
        "A number has digits, optionally a point and more digits, and a unit without a space: `500m`, `0.5`, `2Gi`, `10%`.",
    )
    P110 = Record("unknown escape", r"In strings a backslash begins `\n`, `\t`, `\r`, `\\`, `\"` or `\'`.")
    P111 = Record("word that is not allowed here", "Only a few words are allowed at this position.")
    P112 = Record("part given twice", "This part was given before, and it is not clear which of the two is meant.")
    P113 = Record("unknown keyword", "A declaration, a rule or a line of a test should begin here, but none begins with this word.")
    P114 = Record(
        "word of other schedulers",
        "Some schedulers use predicates and priorities, or allow and deny. Here rules are `filter` with `require` or `reject`, and "
        "`score`.",
    )
    P115 = Record(
        "keyword as a name",
        "Keywords that begin or divide declarations cannot be names.",
    )
    P116 = Record(
        "wrong nesting",
        "Clauses belong inside filters, and the lines of a test inside tests. Declarations and rules belong at the top level.",
    )
    P117 = Record("empty block", "An empty block has no effect. Probably something is missing.")
    P119 = Record(
        "malformed placeholder in a message",
        "In messages `{expression}` is replaced by its value. Braces themselves are written `{{` and `}}`.",
    )
    P120 = Record("more than one policy in a file", "A file contains one policy, so that the name of the file names the policy.")
    P121 = Record(
        "rule without a policy",
        "Rules belong to a policy. A file without a policy is a library of `let`, `param` and `metric`, or contains only tests.",
    )
    P122 = Record("out of place", "Imports come first, then `policy`, then `for pods`, then declarations and rules.")
    P123 = Record("malformed range", "The range of a param is written `range low..high`. Both ends are included.")
    # ── P2xx types, units and shapes ──
    P124 = Record(
        "call with a dot",
        "Values have no methods: a function takes all of its arguments in parentheses. Only the functions of an "
        "import are called with a dot, `shared.headroom(node.free.memory)`.",
    )
    P201 = Record(
        "these cannot be calculated with each other",
        "Arithmetic needs operands with matching units: cpu can be added to cpu, but not to memory. Every value can be multiplied or "
        "divided by a plain number. A value divided by a value of the same dimension is a number.",
    )
    P202 = Record(
        "these cannot be compared",
        "A comparison needs two values of one dimension. A bare number has no unit, so it cannot be compared with memory, cpu, a "
        "percentage or a duration: write the unit.",
    )
    P203 = Record(
        "unknown unit",
        "A number is followed by letters that are not a unit of the language. A misspelled unit is not ignored, because it would change "
        "the value by orders of magnitude.",
    )
    P204 = Record(
        "wrong type for an operator",
        "`and`, `or` and `not` take bool; arithmetic takes numbers; `in` takes a set on its right; `matches` takes labels on its left "
        "and a selector in quotes on its right.",
    )
    P205 = Record(
        "condition is not a bool",
        "`require`, `reject`, `when`, `if`, `where`, `prefer` and `avoid` are followed by a condition, true or false. A number or a string "
        "is not converted to a bool; compare it with something.",
    )
    P206 = Record(
        "wrong type of argument",
        "A function takes arguments of certain types; the reference lists them.",
    )
    P207 = Record(
        "arguments do not fit the function",
        "A function was given too many or too few arguments, one twice, or one by a name it does not have.",
    )
    P208 = Record(
        "alternatives have different types",
        "The two branches of `if`, the two sides of `??`, the members of a list and the points of a curve are alternatives of one "
        "value, so they have one type.",
    )
    P209 = Record(
        "number cannot be used",
        "A number is too large to be represented, or is not whole where only a whole one makes sense.",
    )
    P210 = Record(
        "unknown type",
        "The types of the language are fixed; a param or metric names one of them.",
    )
    P211 = Record(
        "value does not have the declared type",
        "The default and the range of a param are written in the type the param declares, with its unit.",
    )
    P212 = Record(
        "default is outside the range",
        "The default of a param is within its own range, and a range goes from its smaller to its larger end. Otherwise the policy could "
        "not be used with its own defaults.",
    )
    P213 = Record(
        "value of this type cannot be used here",
        "Selections of pods, labels, pods and nodes cannot be compared, calculated with or printed. Use one of their fields, or pass them "
        "to a function that takes them.",
    )
    P214 = Record(
        "node value where there is no node",
        "The pods that a policy governs, and the pods of a selection, are determined once, not once per node. So the candidate node "
        "cannot be read there. Restrict the count to the node instead: `count(…, on: node)` or `count(…, within: "
        '"topology.kubernetes.io/zone")`.',
    )
    P215 = Record(
        "value that is not constant",
        "Weights, tiers, quanta, curve points and points for missing values must be known when the policy is compiled: literals, params "
        "and calculations with them. They cannot depend on a pod or node.",
    )
    P216 = Record(
        "invalid label selector",
        "`matches` is followed by a label selector in the text form of Kubernetes: `app=web,tier in (a, b),!canary`.",
    )
    P217 = Record(
        "argument must be written out",
        "A topology key, a pattern or a selector is read when the policy is checked, so that mistakes in it are found then. It must be a "
        "string in quotes, not a calculation.",
    )
    P218 = Record(
        "invalid argument",
        "The function refuses this value: a pattern that is no regular expression or costs too much, a key that cannot exist, a number"
        " out of its range.",
    )
    P219 = Record(
        "`it` outside of a selection",
        "`it` is one placed pod of a selection. It exists after `pods where`, and in the value of sum, avg, min and max.",
    )
    P220 = Record(
        "aggregate where pods cannot be counted",
        "Whether a policy governs a pod depends on this pod alone, so no other pods can be counted there. One selection cannot be counted "
        "inside another.",
    )
    P221 = Record(
        "malformed table",
        "A table has 1 to 1,000 entries. Its keys are strings in quotes, or whole numbers. The value in the brackets behind the table has "
        'the same type: `{ "gold": 3, "silver": 2 }[pod.labels["tier"]] ?? 1`.',
    )
    P222 = Record(
        "function does not fit its call",
        "A function of the policy is checked where it is declared, and again for each call. Its body is not valid with these arguments, "
        "or at this place: for example, it reads the node, and there is no node in a selection of pods.",
    )
    P223 = Record(
        "points outside of a score",
        "The points of Kubernetes' scores (`taint_points()` and similar functions) are normalised over the nodes that pass all filters. So "
        "they are known only when scores are computed, and a filter cannot read them.",
    )
    P225 = Record(
        "not a workload",
        "A workload is a list of requests in braces: CPU, memory, the number of devices (`gpu`), the thousandths of each (`milli`), the "
        "allowed models, and how common such pods are (`weight`).",
    )
    P226 = Record(
        "groups and counts where the cluster is not read",
        "The pods that a policy governs, the group of a pod, and the pods that may be evicted depend only on pods, the labels of their "
        "namespaces, and the time. The number of pods, and the number of members of a group, can be read only in filters, scores and "
        "`permit`. A library cannot read groups, because they are defined by the policy that imports it.",
    )
    P227 = Record(
        "term of a group cannot be used",
        "`min_count` is a whole number, 0 or more, which is the same for every pod of the group. The `timeout` of a group or a `permit` is "
        "longer than 0 and at most one hour. The levels after `within` and the keys after `spread_over` are different label keys of nodes.",
    )
    # ── P3xx names ──
    P301 = Record(
        "unknown name",
        "A name without a dot is `pod`, `node`, `it`, or a param, let, metric or import of this policy.",
    )
    P302 = Record(
        "unknown field",
        "The fields of pods and nodes are fixed; the reference lists them. (A label that no node has is something else: it is missing,"
        " and the dry run reports it.)",
    )
    P303 = Record(
        "unknown function",
        "The functions of the language are fixed; the reference lists them with their arguments.",
    )
    P304 = Record(
        "unknown plugin",
        "`base kubernetes` sets weights of score plugins of kube-scheduler, by their names. The reference lists them.",
    )
    P305 = Record(
        "unknown plugin argument",
        "`with { … }` takes the arguments that the plugin has in the configuration of kube-scheduler.",
    )
    P306 = Record(
        "name is used twice",
        "Each param, let, metric and import has a name of its own, and so has each filter and score.",
    )
    P307 = Record(
        "lets depend on each other",
        "A let that uses its own value, directly or through other lets, has no value.",
    )
    P308 = Record(
        "import cannot be resolved",
        "The file named by `import` (relative to the importing file) cannot be read, does not parse, is a policy instead of a library,"
        " or imports itself.",
    )
    P309 = Record(
        "name is not in the import",
        "An import offers the params, lets and metrics that its file declares.",
    )
    P310 = Record(
        "key is missing or not allowed",
        'Labels, annotations, conditions and extended resources are read with a key, `node.labels["zone"]`; other fields have none. A '
        "key is a string.",
    )
    P311 = Record(
        "reserved name",
        "`pod`, `node` and `it` always mean the pod, the candidate node and the pod of a selection.",
    )
    P312 = Record(
        "hard constraint in `base kubernetes`",
        "No policy changes the hard constraints of Kubernetes: they apply to every pod, have no weight, and cannot be switched off. "
        "Only score plugins can be named here.",
    )
    # ── P4xx missing values ──
    P401 = Record(
        "requirement may be missing",
        "A label, annotation, condition, extended resource or metric may be absent. Then the requirement is neither true nor false, "
        "and the policy must say whether the node passes: `?? default` after the value, a `has(…)` guard, or `on missing pass` "
        "/ `on missing reject`.",
    )
    P402 = Record(
        "score may be missing",
        "A label, annotation, condition, extended resource or metric may be absent. Then this score has no points, and the policy must say "
        "what happens: `?? default`, a `has(…)` guard, or `on missing <points>`, `on missing neutral`, `on missing skip`.",
    )
    P403 = Record(
        "value may be missing here",
        "This value is needed in every case, so it cannot be absent: give a default with `??`.",
    )
    P404 = Record(
        "victim rule may be missing",
        "A label or annotation of a placed pod may be absent. Then the policy must say whether the pod may be evicted: `?? default` after "
        "the value, a `has(…)` guard, or `on missing keep` / `on missing evict`.",
    )
    # ── P5xx scores ──
    P501 = Record(
        "score may leave 0..100",
        "Scores are added with weights, so they must be on one scale: 0 to 100 points. The compiler checks this by the ranges of the "
        "values and params. If it cannot, use `clamp`, `curve`, or `normalize`.",
    )
    P502 = Record(
        "score is not in points",
        "Points are a plain number from 0 to 100. A percentage, an amount of memory or a duration has another unit. Convert it to "
        "points with `curve`, or rank the nodes with `normalize minmax`.",
    )
    P503 = Record(
        "weight may be negative",
        "Weights are 0 or more for all values that the params can have. To prefer the opposite, use 100 minus the points.",
    )
    P504 = Record(
        "curve does not increase",
        "`curve(x, x0 -> y0, x1 -> y1, …)` has at least two points, and each x is larger than the one before, for all values of the "
        "params.",
    )
    P505 = Record(
        "tier or quantum cannot be used",
        "A tier is a whole number from 1 to 100, and a quantum is 1e-15 or more.",
    )
    P506 = Record(
        "points for missing values leave 0..100",
        "The points of `on missing <points>` are 0 to 100, like all points.",
    )
    # ── P6xx structure ──
    P601 = Record(
        "policy name is used twice",
        "Policies are reported, counted and switched by name, so a set of policies has each name once.",
    )
    P602 = Record(
        "declared twice",
        "A policy has at most one `tie_break`, one quantum per tier, and one entry per plugin in `base kubernetes`.",
    )
    P603 = Record(
        "malformed metric",
        "`metric name: type = prometheus('query', node: \"label\", refresh: 15s, max_age: 2min, min_coverage: 80%)` or "
        '`metrics_api("cpu", …)`; the reference lists the options.',
    )
    P604 = Record(
        "tests without a policy",
        "`X_test.policy` contains tests of the policy in `X.policy` in the same folder. That file does not exist or has no policy.",
    )
    P610 = Record(
        "policy costs too much to decide",
        "The cost of a policy is computed before it decides: the numbers that it computes for each node, the selections of pods that it "
        "counts, the size of its regular expressions, and whether it reads every placed pod. The limit is lower for a policy of a "
        "namespace than for one of the cluster, and none of its selections may read every placed pod. `wharf check --cost` prints the cost "
        "of each rule.",
    )
    # ── P7xx tests ──
    P701 = Record(
        "unknown object in a test",
        "A test can use only nodes and pods that it declares above.",
    )
    P702 = Record(
        "unknown rule in a test",
        "`rejected by` names a filter of the policy, and `scores` names a score.",
    )
    P703 = Record(
        "unknown field of a test object",
        "Nodes and pods of a test have a fixed set of fields; the reference lists them.",
    )
    P704 = Record(
        "test that checks nothing",
        "A test places at least one pod and expects something; otherwise it would always pass.",
    )
    P705 = Record(
        "declared twice in a test",
        "In a test, each node and each pod has a name of its own. Each test of a policy has a title of its own.",
    )
    P706 = Record(
        "value does not fit the field",
        "A field of a test object, a param or a sample of a metric has a type, and literals have units.",
    )
    P707 = Record(
        "unknown param or metric in a test",
        "A test sets params and metrics that the policy declares.",
    )
    P708 = Record(
        "expectation before the pod is placed",
        "`expect` checks the outcome of a `place` above it. This pod has not been placed yet.",
    )
    # ── P8xx whose policy it is ──
    P801 = Record(
        "not for policies of a namespace",
        "A policy of one namespace (the inline policy of a PolicyApp, or a policy in a PlacementPreview) cannot read what shows other "
        "namespaces, or was written for administrators: annotations of nodes, the images on nodes, and the preferred affinity of pods of "
        "other namespaces. A library of the cluster can read them. Such a policy cannot `reserve` nodes for its groups either, because "
        "other pods could not use these nodes.",
    )
    P802 = Record(
        "metric that a namespace may not query",
        "A policy of a namespace can query only the Prometheus servers that the settings allow for namespaces (`tenantServers`), because a "
        "query can read everything on a server. A library of the cluster can declare any metric.",
    )
    P803 = Record(
        "policies of namespaces are switched off",
        "With `tenantPolicies: Off`, the inline policies of PolicyApps and the policies in PlacementPreviews are not used.",
    )
    # ── lints ──
    L101 = Record(
        "unused name",
        "A let, param, metric or import that no rule reads has no effect. Often the name is misspelled where it should be used.",
        Severity.WARNING,
    )
    L102 = Record(
        "policy without rules",
        "This policy has no filter, no score and nothing else that a decision depends on: it changes nothing.",
        Severity.WARNING,
    )
    L103 = Record(
        "too complex to check for warnings",
        "The policy has no errors. The search for conditions that are always true, never true or redundant stopped after 100,000 steps. "
        "The warnings found until then are reported; the rest of the policy was not checked for them.",
        Severity.WARNING,
    )
    L201 = Record(
        "always true",
        "This requirement can never reject a node, for any pod, node and params.",
        Severity.WARNING,
    )
    L202 = Record(
        "always false",
        "This can never be true: the filter rejects every node, or the policy governs no pod.",
        Severity.WARNING,
    )
    L203 = Record(
        "rule never applies",
        "The `when` of this rule can never be true, so the rule has no effect.",
        Severity.WARNING,
    )
    L204 = Record(
        "requirement is implied",
        "An earlier requirement of the same filter includes this one, so it rejects no further node.",
        Severity.WARNING,
    )
    L301 = Record(
        "rule without influence",
        "This score is the same for every node, or has weight 0, so it can never change which node is chosen.",
        Severity.WARNING,
    )
    L302 = Record(
        "rule that always dominates",
        "This score outweighs all others of its tier together, so the others only decide between nodes that it scores equally. Use a "
        "`tier` to say so.",
        Severity.WARNING,
    )
    L303 = Record(
        "rules that contradict each other",
        "A score prefers exactly the nodes that a filter rejects, in this policy or in another one of the set. The preference can never be "
        "followed.",
        Severity.WARNING,
    )
    L401 = Record(
        "missing value is handled without need",
        "This value is never missing, so `??`, `has` or `on missing` has no effect.",
        Severity.WARNING,
    )
    L402 = Record(
        "negation does not cover what is missing",
        "Where the value is missing, the results of `!=`, `not` and `not in` are missing too, so the rule or policy does not apply there. "
        "This is easily overlooked. Give a default with `??`, or test with `has(…)`.",
        Severity.WARNING,
    )
    L501 = Record(
        "reads every placed pod",
        "Counts of placed pods are kept between decisions and updated when pods come and go. This selection differs for each pod "
        "that is scheduled, or distinguishes pods of one template, so every placed pod is read. On a large cluster this takes "
        "longer than the rest of the decision. A policy of a namespace may not do it (P610).",
        Severity.WARNING,
    )

    @property
    def severity(self) -> Severity:
        """Error or warning."""
        return self.value.severity

    @property
    def title(self) -> str:
        """A few words, the headline of its page."""
        return self.value.title
