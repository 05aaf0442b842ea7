"""`wharf prove`: statements about a policy over all pods and all clusters, proved or refuted by a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from wharfinger.cli import chosen_policies, options, streams
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.errors import UsageError, missing_extra
from wharfinger.language.report.diagnostics import PolicyError
from wharfinger.language.report.plain_values import plain

PROVED, REFUTED, FAULTY, UNKNOWN = 0, 1, 2, 3
CODES = {"proved": PROVED, "counterexample": REFUTED, "unknown": UNKNOWN}


def wharf_prove(  # noqa: PLR0913, PLR0917 — one parameter per flag
    policy: Annotated[
        str, typer.Argument(metavar="POLICY", help="The policy file that the statement is about.", autocompletion=options.complete_policies)
    ],
    same_as: Annotated[
        str | None,
        typer.Option(
            "--same-as",
            metavar="POLICY",
            help="This other version makes the same decision for every pod.",
            autocompletion=options.complete_policies,
        ),
    ] = None,
    spares: Annotated[
        str | None,
        typer.Option(
            "--spares", metavar="CONDITION", help="Not all nodes with this condition are ever rejected; --filter says by which filter."
        ),
    ] = None,
    filter_: Annotated[
        str | None,
        typer.Option(
            "--filter", metavar="NAME", help="The filter of --spares; without it, all of them.", autocompletion=options.complete_filters
        ),
    ] = None,
    dead: Annotated[
        str | None,
        typer.Option(
            "--dead",
            metavar="RULE",
            help="This filter rejects no node, or this score gives all nodes the same.",
            autocompletion=options.complete_rules,
        ),
    ] = None,
    implied: Annotated[
        str | None,
        typer.Option(
            "--implied",
            metavar="NAME",
            help="This filter rejects only nodes that the others reject too; see --by.",
            autocompletion=options.complete_filters,
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="NAME", help="The filter that implies the one of --implied.", autocompletion=options.complete_filters),
    ] = None,
    never: Annotated[
        str | None,
        typer.Option("--never", metavar="CONDITION", help="No pod goes to a node with this condition while one of --above would take it."),
    ] = None,
    above: Annotated[
        str | None, typer.Option("--above", metavar="CONDITION", help="The nodes that must win against those of --never.")
    ] = None,
    for_: Annotated[str | None, typer.Option("--for", metavar="CONDITION", help="The pods that --never is about; without it, all.")] = None,
    keeps: Annotated[
        str | None, typer.Option("--keeps", metavar="CONDITION", help="Adding the policy makes no pod with this condition unschedulable.")
    ] = None,
    with_policies: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="POLICY",
            help="Another policy that is enforced too, for --keeps and --implied. May be given several times.",
            autocompletion=options.complete_policies,
        ),
    ] = None,
    param: options.Params = None,
    output: options.TextOrJson = "text",
) -> int:
    """Prove statements about a policy for all pods and all clusters, or print a test that fails.

    Without a statement, every rule is examined. Exit code 0: proved; 1: a counterexample; 3: beyond what is modelled.

    $ wharf prove web.policy --keeps 'pod.namespace == "kube-system"'
    """
    statement_flags = {"--same-as": same_as, "--spares": spares, "--dead": dead, "--implied": implied, "--never": never, "--keeps": keeps}
    given = [flag for flag, value in statement_flags.items() if value is not None]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} are two statements; prove them one after the other")
    _belongs("--filter", filter_, "--spares", spares)
    _belongs("--by", by, "--implied", implied)
    _belongs("--above", above, "--never", never)
    _belongs("--for", for_, "--never", never)
    if with_policies and keeps is None and implied is None:
        raise UsageError("--with needs --keeps or --implied")
    if never is not None and above is None:
        raise UsageError("--never needs --above, the nodes that are to win")
    try:
        found = _single_policy(policy, param)
        others = [_single_policy(path, None) for path in with_policies or ()]
        statements = _statements()
        make: dict[str, Callable[[], Any]] = {
            "--same-as": lambda: statements.same_as(found, _single_policy(str(same_as), param)),
            "--spares": lambda: statements.spares(found, filter_, str(spares)),
            "--dead": lambda: statements.dead(found, str(dead)),
            "--implied": lambda: statements.implied_by(found, str(implied), by, others),
            "--never": lambda: statements.never_above(found, str(never), str(above), for_),
            "--keeps": lambda: statements.keeps(found, str(keeps), others),
        }
        answers = [make[given[0]]()] if given else statements.survey(found)
        streams.out("\n".join(map(str, answers)) if output == "text" else streams.json_text(plain(answers)))
        return _code([answer.verdict.value for answer in answers], bool(given))
    except PolicyError as error:
        error.exit_code = FAULTY  # 1 is a counterexample
        raise


def _belongs(flag: str, value: str | None, to: str, other: str | None) -> None:
    if value is not None and other is None:
        raise UsageError(f"{flag} needs {to}")


def _single_policy(path: str, param: list[str] | None) -> CompiledPolicy:
    """The one policy of a file."""
    found = chosen_policies.compiled([path], param)
    if len(found) != 1:
        raise UsageError(f"{path} contains {len(found)} policies; a statement is about one")
    return found[0]


def _statements() -> Any:
    try:
        from wharfinger.prove import statements  # noqa: PLC0415 — an extra
    except ModuleNotFoundError as error:
        raise missing_extra("`wharf prove` needs z3", "prove") from error
    return statements


def _code(verdicts: list[str], stated: bool) -> int:
    """The exit code of a statement; a survey of rules has found something where a rule is dead."""
    if stated:
        return CODES[verdicts[0]]
    return REFUTED if "proved" in verdicts else UNKNOWN if "unknown" in verdicts else PROVED
