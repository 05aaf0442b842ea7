"""Every diagnostic code: its severity, its title and what it means.

A code is never reused for something else. Its page in `docs/errors/` is made from this record and from the case file of the same name in
`tests/cases/diagnostics/`, which holds a policy that raises it and the corrected one.

    P0xx files and limits · P1xx syntax · P2xx types and units · P3xx names · P4xx missing values · P5xx scores · P6xx structure · P7xx
    tests · P8xx whose policy it is · L… lints
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """An error keeps a policy from compiling; a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Record:
    """The description of a code."""

    title: str
    explanation: str
    severity: Severity = Severity.ERROR


class Code(Enum):
    """The codes, in order."""

    # ── P0xx files and limits ──
    P001 = Record(
        "nothing in the file",
        "A policy file without a policy, a declaration or a test decides nothing. An empty file is more often a failed copy than a wish, "
        "so it is an error.",
    )
    P002 = Record("not a text file", "The file holds bytes that no text has. Policies are text, encoded in UTF-8.")
    P003 = Record("not UTF-8", "Policies are encoded in UTF-8. Save the file in that encoding.")
    P004 = Record(
        "file too large",
        "A policy file is at most 256 KiB together with all that it imports, so that checking one never takes long. Policies people write "
        "are a few KiB.",
    )
    P005 = Record(
        "nested too deep",
        "Brackets and operators stand at most 100 deep in each other. Name the parts with `let`, or test membership with `in [...]` "
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
        "One file has at most 500 tests. Put the rest into a `*_test.policy` file beside the policy. The tests of a policy run whenever it "
        "is read, so together they ask its rules at most 100,000 questions: every rule about every node for each pod that is placed, and "
        "50 more for the decision itself, every selection about every pod, and all rules about a node for each expectation. If rules have "
        "many operations, each 16 of them count as a question. The fields of their objects have at most 2,000,000 letters together, where "
        "each object `like` another one has all of its fields.",
    )
    P009 = Record(
        "too much to calculate",
        "The rules of one policy together need at most 5,000 operations: values that are read, operators, calls, points of a curve and "
        "requirements of a selector. What a `let` calculates counts once in each rule that uses it. Each of them takes time in every "
        "decision; several policies may govern one pod, so a large set can be split freely.",
    )
    P010 = Record(
        "too intricate to check",
        "What may be missing where a `let` is used depends on the guards on every way that leads there, and a chain of lets that each use "
        "another under different guards has more ways than can be gone. Regular expressions take long to read as well: a policy has room "
        "for about a hundred. The check counts its steps and gives up after 100,000, on every machine at the same place; policies people "
        "write need a few hundred.",
    )
    P011 = Record(
        "name too long",
        "A name has at most 253 characters, as many as the name of any object of Kubernetes. What an import declares is kept under the "
        "names of all imports that lead to it, and those have at most 1,000 characters together.",
    )
    # ── P1xx syntax ──
    P100 = Record("unexpected word or symbol", "The text here does not continue the text before it. The message lists what could.")
    P101 = Record("string without an end", "A string ends with the quote it began with, on the same line.")
    P102 = Record("character without meaning", "This character is not part of the language outside of strings and comments.")
    P103 = Record(
        "operator of another language",
        "Operators are `and`, `or`, `not`, `==`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `not in`, `matches`, `??`, `+`, `-`, `*` and `/`.",
    )
    P104 = Record("bracket not closed", "Every `(`, `[` and `{` is closed by its partner.")
    P105 = Record("closing bracket too many", "This bracket closes nothing that is open, or not what was opened last.")
    P106 = Record("comparisons in a chain", "`a < b < c` would compare a truth value with `c`. Join two comparisons with `and`.")
    P107 = Record("`=` and `==` mixed up", "`=` gives a name its value; `==` compares.")
    P108 = Record(
        "dash in a name",
        "`a-b` is a subtraction. Names are made of letters, digits and `_`; names of nodes and pods of tests can also be in quotes.",
    )
    P109 = Record(
        "malformed number", "A number is digits, perhaps a point and more digits, and a unit without a space: `500m`, `0.5`, `2Gi`, `10%`."
    )
    P110 = Record("unknown escape", r"In strings a backslash begins `\n`, `\t`, `\r`, `\\`, `\"` or `\'`.")
    P111 = Record("word that is not allowed here", "Only a few words are allowed at this position.")
    P112 = Record("part given twice", "This part was given before; which of the two holds would be a guess.")
    P113 = Record("unknown keyword", "A declaration, a rule or a line of a test should begin here, but none begins with this word.")
    P114 = Record(
        "word of other schedulers",
        "Some schedulers use predicates and priorities, or allow and deny. Here rules are `filter` with `require` or `reject`, and "
        "`score`.",
    )
    P115 = Record(
        "word of the language as a name",
        "Words that begin or divide declarations cannot be names, so that a file reads the same for people and for the parser.",
    )
    P116 = Record(
        "wrong nesting",
        "Clauses belong inside filters, and the lines of a test inside tests. Declarations and rules belong at the top level.",
    )
    P117 = Record("empty block", "A block with nothing in it has no effect; more likely something is missing.")
    P119 = Record(
        "malformed placeholder in a message",
        "In messages `{expression}` is replaced by its value. Braces themselves are written `{{` and `}}`.",
    )
    P120 = Record("more than one policy in a file", "A file holds one policy, so that the name of the file and the policy stay together.")
    P121 = Record(
        "rule without a policy",
        "Rules belong to a policy; a file without one is a library of `let`, `param` and `metric`, or holds tests only.",
    )
    P122 = Record("out of place", "Imports come first, then `policy`, then `for pods`, then declarations and rules.")
    P123 = Record("malformed range", "The range of a param is written `range low..high`; both ends belong to it.")
    # ── P2xx types, units and shapes ──
    P124 = Record(
        "call with a dot",
        "Values have no methods: a function takes all of its arguments in parentheses. Only the functions of an "
        "import are called with a dot, `shared.headroom(node.free.memory)`.",
    )
    P201 = Record(
        "these cannot be calculated with each other",
        "Arithmetic needs operands whose units go together: cpu can be added to cpu, but not to memory; anything can be multiplied or "
        "divided by a plain number; the same dimension divided by itself is a number.",
    )
    P202 = Record(
        "these cannot be compared",
        "A comparison needs two values of one dimension. A bare number has no unit, so it cannot be compared with memory, cpu, a "
        "percentage or a duration: write the unit.",
    )
    P203 = Record(
        "unknown unit",
        "A number is followed by letters that are not a unit of the language. Units say what a number measures, so a misspelled one "
        "would silently change the meaning by orders of magnitude.",
    )
    P204 = Record(
        "wrong type for an operator",
        "`and`, `or` and `not` take bool; arithmetic takes numbers; `in` takes a set on its right; `matches` takes labels on its left "
        "and a selector in quotes on its right.",
    )
    P205 = Record(
        "condition is not a bool",
        "`require`, `reject`, `when`, `if`, `where`, `prefer` and `avoid` are followed by a condition, true or false. A number or a string "
        "does not turn into a bool by itself; compare it with something.",
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
        "The default of a param lies in its own range, and a range goes from its smaller to its larger end; otherwise the policy would"
        " be refused the moment it is used with its own defaults.",
    )
    P213 = Record(
        "value of this type cannot be used here",
        "Selections of pods, labels, pods and nodes are not values that can be compared, calculated with or printed; take a field of "
        "them or pass them to a function that takes them.",
    )
    P214 = Record(
        "node value where there is no node",
        "Which pods a policy governs and which pods a selection contains is decided once, not once per node, so nothing of the "
        "candidate node can be read there. Restrict the count to the node instead: `count(…, on: node)` or `count(…, within: "
        '"topology.kubernetes.io/zone")`.',
    )
    P215 = Record(
        "value that is not known beforehand",
        "Weights, tiers, quanta, curve points and points for missing values are known when the policy is compiled: literals, params "
        "and calculations with them. They cannot depend on a pod or node.",
    )
    P216 = Record(
        "invalid label selector",
        "`matches` is followed by a label selector in the text form of Kubernetes: `app=web,tier in (a, b),!canary`.",
    )
    P217 = Record(
        "argument must be written out",
        "A topology key, a pattern or a selector is read when the policy is checked, so that mistakes in it are found then. It is a "
        "string in quotes, and not a calculation.",
    )
    P218 = Record(
        "invalid argument",
        "The function refuses this value: a pattern that is no regular expression or costs too much, a key that cannot exist, a number"
        " out of its range.",
    )
    P219 = Record(
        "`it` outside of a selection",
        "`it` is the placed pod that a selection looks at: it exists after `pods where` and in the value of sum, avg, min and max.",
    )
    P220 = Record(
        "aggregate where pods cannot be counted",
        "Which pods a policy governs is decided from the pod alone, and one selection cannot be counted inside another.",
    )
    P221 = Record(
        "misshapen table",
        "A table has 1 to 1,000 entries. Its keys are texts in quotes, or whole numbers, and what stands in the brackets behind it is of "
        'the same kind: `{ "gold": 3, "silver": 2 }[pod.labels["tier"]] ?? 1`.',
    )
    P222 = Record(
        "function called with what does not fit",
        "A function of the policy is checked where it is declared, and again with what each call gives it. Here the body has no meaning "
        "with these arguments, or at this place: what it reads of the node, for example, is not there in a selection of pods.",
    )
    P223 = Record(
        "points outside of a score",
        "The points of Kubernetes' scores (`taint_points()` and its like) are normalised over the nodes that pass all filters, so they are "
        "known when scores are computed, and not before. A filter cannot read them.",
    )
    P225 = Record(
        "not a workload",
        "A workload is a list of requests in braces, each written out: CPU, memory, how many devices (`gpu`) with how many thousandths of "
        "each (`milli`), which models will do, and how common such pods are (`weight`).",
    )
    P226 = Record(
        "groups and counts where the cluster is not looked at",
        "Which pods a policy governs, into which group it puts a pod, and which pods may be evicted, is decided from the pods, the labels "
        "of their namespaces and the time. How many pods there are, and how many members a group has, is known in filters, scores and "
        "`permit` only. A library knows no groups: which they are is said by the policy that imports it.",
    )
    P227 = Record(
        "term of a group cannot be used",
        "`min_count` is a whole number, 0 or more, that every pod of the group has; the `timeout` of a group or a `permit` is longer than "
        "0 and at most one hour. The levels behind `within` and the keys behind `spread_over` are different label keys of nodes.",
    )
    # ── P3xx names ──
    P301 = Record(
        "unknown name",
        "A bare name is `pod`, `node`, `it`, or a param, let, metric or import of this policy.",
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
        "`base kubernetes` reweighs score plugins of kube-scheduler by their own names. The reference lists them.",
    )
    P305 = Record(
        "unknown plugin argument",
        "`with { … }` takes the arguments that the plugin has in kube-scheduler's own configuration.",
    )
    P306 = Record(
        "name is used twice",
        "Params, lets, metrics and imports share one set of names, filters and scores another: a name has one meaning in the whole file.",
    )
    P307 = Record(
        "lets go in a circle",
        "A let that needs its own value, directly or through others, has no value.",
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
        "A policy narrows, never widens: Kubernetes' own hard constraints hold for every pod and cannot be reweighed or switched off. "
        "Only score plugins can be named here.",
    )
    # ── P4xx missing values ──
    P401 = Record(
        "requirement may be missing",
        "A label, annotation, condition, extended resource or metric may be absent. Then the requirement is neither true nor false, "
        "and it is not known whether the node passes. Say it: `?? default` beside the value, a `has(…)` guard, or `on missing pass` "
        "/ `on missing reject`.",
    )
    P402 = Record(
        "score may be missing",
        "A label, annotation, condition, extended resource or metric may be absent. Then this score has no points. Say what happens: "
        "`?? default`, a `has(…)` guard, or `on missing <points>`, `on missing neutral`, `on missing skip`.",
    )
    P403 = Record(
        "value may be missing here",
        "This value is needed in every case, so it cannot be absent: give a default with `??`.",
    )
    P404 = Record(
        "victim rule may be missing",
        "A label or annotation of a placed pod may be absent. Then a rule of `preemption` neither protects the pod nor gives it up. Say "
        "what is meant: `?? default` beside the value, a `has(…)` guard, or `on missing keep` / `on missing evict`.",
    )
    # ── P5xx scores ──
    P501 = Record(
        "score may leave 0..100",
        "Scores are added with weights, so they must be on one scale: 0 to 100 points. The compiler proves it from the ranges of the "
        "values and params; where it cannot, use `clamp`, `curve`, or `normalize`.",
    )
    P502 = Record(
        "score is not in points",
        "Points are a plain number from 0 to 100. A percentage, an amount of memory or a duration has another unit; turn it into "
        "points with `curve`, or rank the nodes with `normalize minmax`.",
    )
    P503 = Record(
        "weight may be negative",
        "Weights are 0 or more for every value that the params can take. To prefer the opposite, turn the points around.",
    )
    P504 = Record(
        "curve does not increase",
        "`curve(x, x0 -> y0, x1 -> y1, …)` is drawn from left to right: at least two points, each x larger than the one before, "
        "whatever the params are.",
    )
    P505 = Record(
        "tier or quantum cannot be used",
        "A tier is a whole number from 1 to 100, and a quantum is larger than 0.",
    )
    P506 = Record(
        "points for missing values leave 0..100",
        "`on missing <points>` gives a node points like any other: 0 to 100.",
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
        "metric is not declared right",
        "`metric name: type = prometheus('query', node: \"label\", refresh: 15s, max_age: 2min, min_coverage: 80%)` or "
        '`metrics_api("cpu", …)`; the reference lists the options.',
    )
    P604 = Record(
        "tests without a policy",
        "`X_test.policy` holds tests of the policy in `X.policy` beside it; that file is not there or has no policy.",
    )
    P610 = Record(
        "policy costs too much to decide",
        "What a policy costs is known before it decides: how many numbers it computes for each node, how many selections of pods it "
        "counts, how large its regular expressions are, and whether it has to look at every placed pod. A policy of a namespace may cost "
        "less than one of the cluster, and none of its selections may look at every placed pod. `wharf check --cost` prints what each rule "
        "costs.",
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
        "Within a test every node and pod has its own name, and every test of a policy its own title.",
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
        "`expect` looks at the outcome of a `place` above it; nothing has happened to this pod yet.",
    )
    # ── P8xx whose policy it is ──
    P801 = Record(
        "not for policies of a namespace",
        "What shows other namespaces, or was written for those who run the cluster, cannot be read by a policy of one namespace (the "
        "inline policy of a PolicyApp, or one that a PlacementPreview brings along): annotations of nodes, which images they have, and "
        "what pods of other namespaces prefer to be with. A library that the cluster shares may read them. Nor can such a policy `reserve` "
        "nodes for its groups, which would keep them from the pods of others.",
    )
    P802 = Record(
        "metric that a namespace may not query",
        "A policy of a namespace queries only the Prometheus servers that the settings allow to namespaces (`tenantServers`), for a query "
        "can read everything that a server has. A library that the cluster shares may declare any metric.",
    )
    P803 = Record(
        "policies of namespaces are switched off",
        "With `tenantPolicies: Off` neither inline policies of PolicyApps nor those that PlacementPreviews bring along are used.",
    )
    # ── lints ──
    L101 = Record(
        "unused name",
        "A let, param, metric or import that no rule reads does nothing. Often the name is misspelled where it should be used.",
        Severity.WARNING,
    )
    L102 = Record(
        "policy without rules",
        "This policy has no filter, no score and nothing else that a decision depends on: it changes nothing.",
        Severity.WARNING,
    )
    L103 = Record(
        "too intricate to look for doubts",
        "The policy has no errors, but looking for what is always true, never true or already said would take more than 100,000 steps. "
        "What was found until then is reported; the rest of the policy was not looked at.",
        Severity.WARNING,
    )
    L201 = Record(
        "always true",
        "This requirement can never reject a node, whatever the pod, the node and the params are.",
        Severity.WARNING,
    )
    L202 = Record(
        "always false",
        "This can never be true: the filter rejects every node, or the policy governs no pod.",
        Severity.WARNING,
    )
    L203 = Record(
        "rule never applies",
        "The `when` of this rule can never be true, so the rule is dead.",
        Severity.WARNING,
    )
    L204 = Record(
        "requirement is implied",
        "An earlier requirement of the same filter includes this one; it rejects no further node.",
        Severity.WARNING,
    )
    L301 = Record(
        "rule without influence",
        "This score is the same for every node, or has weight 0, so it can never change which node wins.",
        Severity.WARNING,
    )
    L302 = Record(
        "rule that always dominates",
        "This score outweighs all others of its tier together, so they only matter between nodes it calls equal. Say so with a `tier`.",
        Severity.WARNING,
    )
    L303 = Record(
        "rules that fight",
        "A score prefers exactly the nodes that a filter rejects, in this policy or in another one of the set. The preference can never be "
        "followed.",
        Severity.WARNING,
    )
    L401 = Record(
        "missing value is handled in vain",
        "This value is never missing, so `??`, `has` or `on missing` has no effect.",
        Severity.WARNING,
    )
    L402 = Record(
        "negation does not cover what is missing",
        "Where the value is missing, `!=`, `not` and `not in` are missing too, so the rule or policy does not apply there. That is "
        "easily overlooked: give a default with `??`, or test with `has(…)`.",
        Severity.WARNING,
    )
    L501 = Record(
        "looks at every placed pod",
        "Counts of placed pods are kept between decisions and follow the pods that come and go. This selection is another one for each pod "
        "that is decided, or distinguishes pods of one template, so every placed pod is looked at. On a large cluster that takes "
        "longer than the rest of the decision; a policy of a namespace may not do it (P610).",
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
