"""Reads decision logs, however they ended, and applies their lines to a state.

A file whose last line was cut off by the end of the process is read up to that line. Anything else that is not as it was written is an
error that names the file and the line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from wharfinger.builtins import CATALOGUE
from wharfinger.compiler.program import CompiledPolicy, compile_policy
from wharfinger.errors import UsageError, WharfingerError
from wharfinger.framework.chain import Chain, assemble
from wharfinger.groups.terms import Disruption, Group, GroupTerms
from wharfinger.language.load import TextSet
from wharfinger.language.report.diagnostics import Diagnostics, PolicyError
from wharfinger.language.report.wording import count
from wharfinger.language.semantics.authority import CLUSTER, Authority, TenantPolicies
from wharfinger.model import objects
from wharfinger.model.devices.allocated import with_allocation
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.copies import put_back, set_revision
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.scheduler.decision_log import files
from wharfinger.scheduler.decision_log.lines import DECODE, HEAD, VERSION, Line, LoggedAnswer, LoggedFound, LoggedQuestion

if TYPE_CHECKING:
    from wharfinger.framework.chain_settings import ChainConfig

MAX_HEAD_BYTES = 65_536
"""Bytes of a first line; a file with a longer one is no log."""
_GZIP = b"\x1f\x8b"


class BrokenLog(UsageError):
    """A log that cannot be replayed from here on."""


class Place(Struct, frozen=True, kw_only=True):
    """A line of a file, counted from 1."""

    path: Path
    number: int

    def __str__(self) -> str:
        return f"{self.path}:{self.number}"


class LogReader(Struct, kw_only=True):
    """Reads a log from its path; `notes` are sentences about missing parts."""

    path: Path
    notes: list[str] = field(default_factory=list)
    _run: str | None = None
    _file: int = 0
    _decisions: int = 0

    def lines(self) -> Iterator[tuple[Place, Line]]:
        """Every line of every file, in order. UsageError for a log that does not exist, BrokenLog for one that is broken."""
        try:
            for path, stream in files.opened(self.path):
                yield from self._of_file(path, stream)
        except OSError as error:
            raise UsageError(f"{error.filename or self.path}: {error.strerror}") from error
        if self._run is None:
            raise BrokenLog(f"{self.path}: nothing has been written to this decision log yet")

    def _of_file(self, path: Path, stream: IO[bytes]) -> Iterator[tuple[Place, Line]]:
        first = stream.readline(MAX_HEAD_BYTES)
        for number, content in enumerate(chain([first] if first else [], stream), start=1):
            place = Place(path=path, number=number)
            if not content.endswith(b"\n") and (number > 1 or _may_begin(content)):
                self._run = self._run or ""
                self.notes.append(
                    f"{place}: the last line is not complete and is left out: it is being written, or the process ended while it was"
                )
                return
            line = _decoded(place, content)
            if number == 1 or line.t == "log":
                self._begins(place, line)
            self._decisions += line.t == "decision"
            yield place, line

    def _begins(self, place: Place, line: Line) -> None:
        """Check the first line of a file, and whether the file follows the one before."""
        if line.t != "log":
            raise BrokenLog(f"{place}: this is not the beginning of a decision log; the lines before are missing")
        if line.version != VERSION:
            raise BrokenLog(f"{place}: a decision log of version {line.version}; this program reads version {VERSION}")
        if line.lost:
            self.notes.append(f"{place.path}: decisions before this file were not recorded: the disk was full, or too slow")
        elif line.run == self._run and line.decisions > self._decisions:
            missing = line.decisions - self._decisions
            are = "is" if missing == 1 else "are"
            note = f"{count(missing, 'decision')} before this file {are} missing: a file was removed, or cut off"
            self.notes.append(f"{place.path}: {note}")
        elif line.run == self._run and line.file != self._file + 1:
            self.notes.append(f"{place}: this file does not continue the one before it: the files are out of order, or one is there twice")
        self._run, self._file, self._decisions = line.run, line.file, line.decisions


def _may_begin(content: bytes) -> bool:
    """True if a first line that was cut off may be one of a log."""
    return content[: len(HEAD)] == HEAD[: len(content)]


def _decoded(place: Place, content: bytes) -> Line:
    try:
        return DECODE(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if content.startswith(_GZIP):
            raise BrokenLog(f"{place}: this is compressed; uncompress it first (`wharf replay <(gunzip -c FILE)`)") from error
        if place.number == 1:
            raise BrokenLog(f"{place}: this is not a decision log: {error}") from error
        raise BrokenLog(f"{place}: the line cannot be read: {error}") from error


def _claim(line: Line) -> objects.ResourceClaim:
    return decode.decode_json(line.object, objects.ResourceClaim)


_KINDS = {kind.__name__: kind for kind in objects.KINDS.values()}


class Playback:
    """Applies lines to a state. `state` and `chains` (by profile) are those after the lines applied so far."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.chains: dict[str, Chain] = {}
        self.complete = False
        self._pods: dict[str, PodView] = {}
        self._policies: dict[str, CompiledPolicy] = {}
        self._whole: dict[str, Group] = {}
        self._take: Mapping[str, Callable[[Line], Any]] = {
            "log": self._begin,
            "node": lambda line: self.state.add_node(decode.decode_json(line.object, objects.Node)),
            "node gone": lambda line: self.state.remove_node(line.name),
            "pod": self._pod,
            "pod gone": lambda line: self.state.remove_pod(_named(line.uid)),
            "assume": lambda line: self.state.assume(self.pod(line), line.node),
            "forget": lambda line: self.state.forget(_named(line.uid)),
            "nominate": lambda line: self.state.nominate(self.pod(line), line.node),
            "denominate": lambda line: self.state.remove_nomination(_named(line.uid)),
            "leaves": lambda line: self.state.expect_leaving(line.uid),
            "stays": lambda line: self.state.expect_staying(line.uid),
            "put": lambda line: self.state.put(decode.decode_json(line.object, _KINDS[line.kind])),
            "drop": lambda line: self.state.drop(line.kind, line.key),
            "take devices": self._reserve_devices,
            "give back devices": lambda line: self.state.release_devices(_claim(line), written=line.assumed),
            "metric": lambda line: self.state.set_metric(line.name, line.samples),
            "metric gone": lambda line: self.state.drop_metric(line.name),
            "group size": lambda line: self.state.set_group_size(line.key, line.size),
            "member": self.pod,
            "whole": self._take_whole,
            "search": lambda _line: None,  # a question
            "found": lambda _line: None,  # and its answer
            "group": lambda _line: None,  # its state is in separate lines
            "state": self._complete,
            "policy": self._policy,
            "chain": self._chain,
        }

    def take(self, line: Line) -> None:
        """Apply a line; BrokenLog if it cannot be applied."""
        taken = self._take.get(line.t)
        if taken is None:
            raise BrokenLog(f"there are no lines called {line.t!r}")
        try:
            taken(line)
        except BrokenLog:
            raise
        except KeyError as error:
            raise BrokenLog(f"{line.t}: there is no {error}, neither in this version nor in the lines before") from error
        except (WharfingerError, ValueError, msgspec.MsgspecError) as error:
            raise BrokenLog(f"{line.t}: {error}") from error

    def pod(self, line: Line) -> PodView:
        """The pod that a line is about."""
        if bytes(line.object):
            self._pods[line.uid] = PodView(decode.decode_json(line.object, objects.Pod))
        found = self._pods.get(line.uid)
        if found is None:
            raise BrokenLog(f"pod {line.uid} was not written before")
        return found

    def recorded(self, place: Place, line: Line) -> Recorded:
        """The decision that a line is about. BrokenLog if something of it is missing."""
        pod, question, answer = self.pod(line), line.question, line.answer
        if question is None or answer is None or not self.complete or question.profile not in self.chains:
            raise BrokenLog("a decision of which something is missing")
        if question.revision != self.state.revision:
            now, then = self.state.revision, question.revision
            raise BrokenLog(f"the state is at revision {now} and was at {then} when this was decided: changes are missing")
        chain, snapshot = self.chains[question.profile], self.state.snapshot(question.now)
        return Recorded(place=place, pod=pod, question=question, answer=answer, chain=chain, snapshot=snapshot)

    def searched(self, place: Place, line: Line) -> RecordedSearch:
        """The search for a group that a line is about. BrokenLog if something of it is missing."""
        search = line.search
        if search is None or not self.complete or search.profile not in self.chains:
            raise BrokenLog("a search of which something is missing")
        if search.revision != self.state.revision:
            raise BrokenLog(
                f"the state is at revision {self.state.revision} and was at {search.revision} at this search: changes are missing"
            )
        missing = [uid for uid in search.waiting if uid not in self._pods]
        if missing:
            raise BrokenLog(f"pod {missing[0]} was not written before")
        snapshot = self.state.snapshot(search.now)
        placed = [(uid, node, snapshot.placed(uid)) for uid, node in search.placed.items()]
        group = Group(
            key=line.key,
            terms=search.terms,
            waiting=tuple(self._pods[uid] for uid in search.waiting),
            placed=tuple(_named(uid).placed_on(node) if found is None else found[1] for uid, node, found in placed),
        )
        unknown = [key for key in search.others or () if key not in self._whole]
        if unknown:
            raise BrokenLog(f"group {unknown[0]} was not written before")
        return RecordedSearch(
            place=place,
            profile=search.profile,
            group=group,
            chain=self.chains[search.profile],
            state=self.state,
            now=search.now,
            others=None if search.others is None else tuple(self._whole[key] for key in search.others),
        )

    def _begin(self, _line: Line) -> None:
        self.state = ClusterState()
        self.chains.clear()
        self._pods.clear()
        self._whole.clear()
        self.complete = False

    def _complete(self, line: Line) -> None:
        set_revision(self.state, line.revision)
        self.complete = True

    def _reserve_devices(self, line: Line) -> None:
        claim = _claim(line)
        if claim.status.allocation is None:
            raise BrokenLog("a claim without an allocation")
        self.state.reserve_devices(with_allocation(claim, None), claim.status.allocation)

    def _pod(self, line: Line) -> None:
        pod = self.pod(line)
        if not self.complete:
            put_back(self.state, pod, line.node, assumed=line.assumed)
        else:
            self.state.add_pod(pod.placed_on(line.node) if line.node else pod)

    def _take_whole(self, line: Line) -> None:
        if line.whole is None:
            raise BrokenLog("a group without its pods")
        terms = GroupTerms(min_count=0, source="", disruption=Disruption.GROUP, priority=line.whole.priority)
        self._whole[line.key] = Group(key=line.key, terms=terms, waiting=(), placed=tuple(map(_named, line.whole.placed)))

    def _policy(self, line: Line) -> None:
        if line.policy not in self._policies:
            self._policies[line.policy] = compiled(line)

    def _chain(self, line: Line) -> None:
        if line.settings is None:
            raise BrokenLog("a chain without settings")
        policies = [self._policies[revision] for revision in line.policies]
        chain = assemble(policies, config_of(line))
        if chain.revision != line.chain:
            raise BrokenLog(
                f"profile {line.profile} cannot be made again: with these policies and settings this version, and the plugins that are "
                "installed, decide differently from those that wrote the log"
            )
        self.chains[line.profile] = chain


class Recorded(Struct, frozen=True, kw_only=True):
    """A recorded decision with the chain that made it and the state on which it was made; the state is current until the next line."""

    place: Place
    pod: PodView
    question: LoggedQuestion
    answer: LoggedAnswer
    chain: Chain
    snapshot: Snapshot


class RecordedSearch(Struct, frozen=True, kw_only=True):
    """A recorded search for a group, with the chain that decided; the state is current until the next line.

    It is for a place, or for the pods that must leave: then `others` are the groups that leave as a whole.
    """

    place: Place
    profile: str
    group: Group
    chain: Chain
    state: ClusterState
    now: float
    others: tuple[Group, ...] | None = None


class RecordedFound(Struct, frozen=True, kw_only=True):
    """The answer of the search for a group that was recorded last."""

    place: Place
    key: str
    found: LoggedFound


def decisions(reader: LogReader) -> Iterator[Recorded]:
    """Every decision of a log about a single pod, in order; raises what `questions` raises."""
    return (each for each in questions(reader) if isinstance(each, Recorded))


def questions(reader: LogReader, only: str | None = None) -> Iterator[Recorded | RecordedSearch | RecordedFound]:
    """Every decision, search for a group and answer of a search in order; with `only`, those about the pod of that key, but all answers.

    UsageError for a log that does not exist, BrokenLog where it cannot be read on.
    """
    playback, empty = Playback(), True
    for place, line in reader.lines():
        question: Recorded | RecordedSearch | RecordedFound | None = None
        try:
            if line.t == "decision":
                question = playback.recorded(place, line)
            elif line.t == "search":
                question = playback.searched(place, line)
            else:
                playback.take(line)
                question = None if line.found is None else RecordedFound(place=place, key=line.key, found=line.found)
        except BrokenLog as error:
            raise BrokenLog(f"{place}: {error}") from error
        empty = empty and question is None and line.t != "group"
        if question is not None and (only is None or _is_about(question, only)):
            yield question
    if empty:
        raise BrokenLog(f"{reader.path}: no decision has been written to this decision log yet")


def _is_about(question: Recorded | RecordedSearch | RecordedFound, key: str) -> bool:
    """True for an entry about the pod of that key, and for every answer of a search: it is about the pods of its search."""
    if isinstance(question, RecordedSearch):
        return any(pod.key == key for pod in question.group.waiting)
    return isinstance(question, RecordedFound) or question.pod.key == key


def compiled(line: Line, params: Mapping[str, Any] | None = None) -> CompiledPolicy:
    """The policy of a line, with other values of params where they are given. PolicyError when it does not compile any more."""
    diagnostics = Diagnostics()
    texts = TextSet(texts={name: text.encode() for name, text in line.texts.items()})
    found = texts.check(line.source, CATALOGUE, diagnostics, authority_of(line)).policy
    if found is None or diagnostics.has_errors:
        raise PolicyError(diagnostics)
    policy = compile_policy(found, {**line.params, **(params or {})})
    if params is None and policy.revision != line.policy:
        raise BrokenLog(f"policy {line.name} differs from the recorded one when it is read: this version understands it differently")
    return policy


def authority_of(line: Line) -> Authority:
    """The authority of a policy's line."""
    if line.namespace is None:
        return CLUSTER
    return Authority(line.namespace, TenantPolicies(line.allowed), frozenset(line.servers))


def config_of(line: Line) -> ChainConfig:
    """The settings of a chain's line."""
    from wharfinger.framework.chain_settings import ChainConfig  # noqa: PLC0415 — imports Pydantic, which no other question needs

    found = line.settings
    if found is None:
        return ChainConfig()
    return ChainConfig(weights=found.weights, arguments=found.arguments, disabled=frozenset(found.disabled))


def _named(uid: str) -> PodView:
    """A pod with this uid and nothing else."""
    return PodView(objects.Pod(metadata=objects.ObjectMeta(uid=uid)))
