"""For owners of reliable topics and for operators of repositories: ask repositories, and tell them what to do.

    async with stentor.connect() as fabric, Registrar(fabric) as registrar:
        await registrar.create("orders", ["r1", "r2", "r3"])
        await registrar.grant("orders", "publisher", "shop")

Repositories are spoken to as everybody is, by events: all of a topic have one topic for questions, and all there are
have one; what not everybody may ask for travels to one of them on a topic that names who asks. They answer to the name
of whoever asks, who believes the repositories that are asked and nobody else: of a topic that exists its members, as
the broker knows them, and otherwise those that prove to be nodes.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import msgspec

from stentor.admin.answer_belief import Believes, is_introduced, wrote_by
from stentor.admin.bundle_choice import check_bundle, check_willing, choose
from stentor.admin.existing_topic import check_same
from stentor.client.fabric import Events, Fabric
from stentor.model.communication import REPOSITORIES, Role, bundle_of
from stentor.model.control import Registration, RegistrationReceipt, TopicTask
from stentor.model.errors import FrameError, InvalidInput, Refusal, Refused, StentorError, Unreachable
from stentor.model.mail import MAIL
from stentor.model.ranges import check_client_name, check_reliable_topic
from stentor.model.reports.report import PeerReport as PeerReport
from stentor.model.reports.report import RepositoryReport as RepositoryReport
from stentor.model.reports.report import TopicReport as TopicReport
from stentor.model.trust.access import ANONYMOUS
from stentor.model.trust.place import UNPROVED, is_operator_name
from stentor.model.trust.request_topic import request_topic
from stentor.model.wording.suggestion import suggestion
from stentor.protocols.delivery.authentication import BundleMembers
from stentor.wire.letter import check_readable, read, write

S = TypeVar("S", bound=msgspec.Struct)

WITHIN = 5.0  # seconds for the first answer
_CHANGED_WITHIN = 15.0  # seconds for the answer to a change: for ten a repository waits for all brokers
_AGAIN = 0.5  # before a question is repeated that changes nothing: our inbox may not be known everywhere yet
_SILENCE = 0.3  # after which nobody else is expected to answer
_LONG_SILENCE = 1.0  # seconds after which nobody else is expected, if somebody is missing
_PATIENCE = 2.0  # with one repository, before the next is asked
_LOOK_AGAIN = 0.1  # while something is awaited

NOBODY = (
    "no repository answers: `stentor up` without a file runs one, a file has them as [[repository]], and "
    "`stentor repository add NAME` starts another one"
)


class Incomplete(StentorError):
    """Some repositories have done what was asked for, others have not; the same may be asked again."""


class _Question(NamedTuple):
    """What repositories were asked, and who is believed."""

    answers: asyncio.Queue[RegistrationReceipt]
    believes: Believes


class _Seen(NamedTuple):
    """A topic as each of its repositories sees it, and who these are."""

    reports: dict[str, TopicReport]
    members: BundleMembers


class Registrar:
    """Asks repositories on behalf of a connected client, under its name and principal. Use it with `async with`."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._inbox: Events = fabric.inbox()
        self._reader: asyncio.Task[None] | None = None
        self._operator: Registrar | None = None  # who asks under an operator's name, once that is needed
        self._more = AsyncExitStack()  # what ends with us
        self._waiting: dict[int, _Question] = {}  # by token
        self._busy: dict[str, str] = {}  # topics that a repository has and cannot serve, and why

    async def __aenter__(self) -> Self:
        await self._inbox.__aenter__()
        self._reader = asyncio.get_running_loop().create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._more.aclose()
        await self._inbox.close()
        if self._reader is not None:
            await asyncio.wait([self._reader])

    async def _read(self) -> None:
        async for event in self._inbox:
            try:
                receipts = read(event.body).events
            except FrameError:
                continue  # somebody else writes to us too
            for receipt in receipts:
                if isinstance(receipt, RegistrationReceipt) and receipt.token in self._waiting:
                    question = self._waiting[receipt.token]
                    if question.believes(int(event.publisher, 16), receipt):
                        question.answers.put_nowait(receipt)

    @contextmanager
    def _asking(self, registration: Registration, believes: Believes) -> Iterator[asyncio.Queue[RegistrationReceipt]]:
        """The answers to a question, from those who are believed."""
        question = self._waiting[registration.token] = _Question(asyncio.Queue(), believes)
        try:
            yield question.answers
        finally:
            del self._waiting[registration.token]

    # ---- looking

    async def find(
        self, expected: Iterable[str] = (), within: float = WITHIN, *, only: bool = False, topic: str = ""
    ) -> dict[str, RepositoryReport]:
        """All repositories that answer, or only those that are expected; these are given more time. Of a topic, they
        say whether they are willing to manage it for us.
        """
        wanted = frozenset(expected)
        receipts = await self._gather(
            REPOSITORIES,
            self._registration(topic, TopicTask.STATUS),
            is_introduced,
            lambda answers: only and wanted <= answers.keys(),
            lambda answers: _SILENCE if wanted <= answers.keys() else _LONG_SILENCE,
            within,
        )
        return {name: _decode(receipt, RepositoryReport) for name, receipt in sorted(receipts.items())}

    async def show(self, topic: str, within: float = WITHIN) -> dict[str, TopicReport]:
        """A topic as each of its repositories sees it; InvalidInput if there is none."""
        return (await self._look(topic, within)).reports

    async def _look(self, topic: str, within: float = WITHIN, client: str = "") -> _Seen:
        check_reliable_topic(topic)
        reports: dict[str, TopicReport] = {}

        def enough(answers: dict[str, RegistrationReceipt]) -> bool:
            reports.update((name, _decode(answers[name], TopicReport)) for name in answers.keys() - reports.keys())
            return bool(reports) and all(reports.keys() >= set(report.members) for report in reports.values())

        registration = self._registration(topic, TopicTask.SHOW, name=client)
        end = _now() + within
        while True:
            members = BundleMembers(await self._fabric._bundles.find(topic, _LONG_SILENCE))
            if members.principals:
                believes = wrote_by(members)
                await self._gather(bundle_of(topic), registration, believes, enough, lambda _: _SILENCE, _LONG_SILENCE)
            created = {name: report for name, report in sorted(reports.items()) if report.members}
            if created:
                return _Seen(created, members)
            if topic in self._busy:
                raise Refused(Refusal.BUSY, self._busy.pop(topic))
            await self._explain_silence(topic)
            if _now() > end:
                raise Unreachable(f"the repositories of {topic} do not answer")

    async def _explain_silence(self, topic: str) -> None:
        """Raise what is wrong if nobody says anything of a topic; nothing, if somebody who is silent manages it."""
        found = await self.find()
        if not found:
            raise Unreachable(NOBODY)
        known = sorted({name for report in found.values() for name in report.topics})
        if topic not in known:
            hint = suggestion(topic, known) if known else f"; `stentor topic create {topic} --reliable` makes it one"
            raise InvalidInput(f"no repository has a reliable topic {topic!r}{hint}")

    # ---- owners

    async def create(
        self,
        topic: str,
        repositories: Sequence[str] = (),
        *,
        copies: int = 0,
        keep: int = 0,
        expire: int = 0,
        hold: bool = False,
        join: bool = False,
        within: float = 30.0,
    ) -> dict[str, TopicReport]:
        """Register a reliable topic at these repositories, or at all that are willing; returns when all are ready.

        `copies` of them must have an event before it counts as stored (default 2, or 1 if there is one only); seconds
        that events are kept after everyone has them (default a day), and after which they are dropped anyway. With
        `hold`, no event leaves its top-level unit before a repository that serves this unit has it. Of several for one
        unit, all are to `join` in serving it. The topic of mail is created by operators.
        """
        check_reliable_topic(topic)
        if topic == MAIL and (asking := await self._as_operator()) is not self:
            return await asking.create(
                topic, repositories, copies=copies, keep=keep, expire=expire, join=join, within=within
            )
        found = await self._present(repositories, topic)
        there = choose(found, repositories)
        check_bundle(there, copies, hold, join)
        for report in found.values():
            known = report.topics.get(topic)
            if known is not None and known.members:
                check_same(known, tuple(there), copies, keep, expire, hold)
        names, principals = tuple(there), tuple(report.principal for report in there.values())
        believes = wrote_by(BundleMembers(dict(zip(names, principals, strict=True))))
        after = await self._fabric._bundles.find_end(topic, _LONG_SILENCE)
        terms = self._registration(
            topic,
            TopicTask.CREATE,
            repositories=names,
            principals=principals,
            copies=copies,
            keep=keep,
            expire=expire,
            hold=hold,
            born=max(time.time_ns() // 1_000_000, after + 1),
            after=after,
        )
        answers = await asyncio.gather(*(self._confirm(name, terms, believes, within) for name in names))
        for answer in answers:
            if answer is not None and answer.code is not None:
                raise Refused(answer.code, answer.reason)
        silent = [name for name, answer in zip(names, answers, strict=True) if answer is None]
        if silent:
            raise Incomplete(f"{topic} is not registered at {', '.join(silent)}, which did not answer: create it again")
        for answer in answers:
            _check_confirmed(topic, answer)
        return await self.until(
            topic, lambda seen: all(name in seen and seen[name].ready for name in names), _waits_for(names), within
        )

    async def _confirm(
        self, name: str, terms: Registration, believes: Believes, within: float
    ) -> RegistrationReceipt | None:
        """Creating is repeated until it is answered: it changes nothing if it was done already."""
        registration = msgspec.structs.replace(terms, token=self._fabric.token())
        end = _now() + within
        with self._asking(registration, believes) as answers:
            while (now := _now()) < end:
                await self._ask(name, registration)
                try:
                    receipt = await asyncio.wait_for(answers.get(), min(_PATIENCE, end - now))
                except TimeoutError:
                    continue
                if receipt.code is not Refusal.BUSY:
                    return receipt
                await asyncio.sleep(_LOOK_AGAIN)
        return None

    async def _present(self, repositories: Sequence[str], topic: str = "") -> dict[str, RepositoryReport]:
        found = await self.find(repositories, topic=topic)
        if not found:
            raise Unreachable(NOBODY)
        missing = [name for name in repositories if name not in found]
        if missing:
            known = ", ".join(found)
            raise Unreachable(f"the repository {missing[0]!r} does not answer; those that do are {known}")
        return found

    async def grant(self, topic: str, role: Role, name: str, holder: str | None = None) -> TopicReport:
        """Let a principal publish or subscribe under a name: the one of the same name, if the fabric has certificates
        and no other is given; "" is anyone.
        """
        check_client_name(name)
        if holder is None:
            holder = ANONYMOUS if self._fabric.principal == ANONYMOUS else name
        return await self._change(topic, TopicTask.GRANT, role=role, name=name, holder=holder)

    async def revoke(self, topic: str, role: Role, name: str) -> TopicReport:
        """Take that back; what a subscriber has not got yet is forgotten."""
        return await self._change(topic, TopicTask.REVOKE, role=role, name=name)

    async def leave(self, topic: str, name: str) -> None:
        """End the subscription of a name that is ours to use, whoever holds it now: nothing is kept for it any more."""
        await self._change(topic, TopicTask.LEAVE, name=name)

    async def steer(self, topic: str, role: Role, name: str, repository: str, within: float = 30.0) -> None:
        """Move a publisher or subscriber to another repository of its topic; returns when that one steers it. It stays
        there, as if it had chosen that itself.
        """
        check_client_name(name)
        asking = await self._as_operator()
        registration = asking._registration(topic, TopicTask.STEER, role=role, name=name, repositories=(repository,))
        end = _now() + within
        while True:
            seen, members = await asking._look(topic, client=name)
            if repository in seen and seen[repository].does_steer(role, name):
                return
            bundle = sorted({each for report in seen.values() for each in report.members})
            if repository not in bundle:
                raise InvalidInput(f"{repository} is no repository of {topic}: these are {', '.join(bundle)}")
            steering = [each for each in seen if seen[each].does_steer(role, name)]
            if steering:
                await asking._tell(steering, registration, wrote_by(members), WITHIN, done=(Refusal.UNKNOWN,))
            elif _now() > end - within / 2:
                raise InvalidInput(f"no repository of {topic} steers a {role} {name}: it is not there now")
            if _now() > end:
                raise Incomplete(f"after {within:g} s, {repository} does not steer {name}")
            await asyncio.sleep(_LOOK_AGAIN)

    async def add(self, topic: str, repository: str, *, join: bool = False) -> None:
        """Let another repository manage a topic; it has to catch up before it serves anybody. One that manages it
        already is believed under the principal that it has now. A unit that has a repository of its own gets another
        one only if that is to `join` it.
        """
        found = await self._present([repository], topic)
        check_willing(found, repository)
        report = found[repository]
        await self._change(
            topic,
            TopicTask.ADD_REPOSITORY,
            repositories=(repository,),
            principals=(report.principal,),
            units=(report.unit,),
            joins=join,
        )

    async def remove(self, topic: str, repository: str) -> None:
        """Make a repository leave a topic; it goes when others have all that it has."""
        await self._change(topic, TopicTask.REMOVE_REPOSITORY, last=repository, repositories=(repository,))

    async def delete(self, topic: str) -> tuple[str, ...]:
        """Delete a topic and all that is stored of it; returns those of its repositories that did not answer. They
        delete what they have when they are back: their brokers know that the topic is gone.
        """
        asking = await self._as_operator()
        seen, members = await asking._look(topic)
        for name in seen:
            registration = asking._registration(topic, TopicTask.DELETE)
            await asking._tell([name], registration, wrote_by(members), WITHIN, done=(Refusal.UNKNOWN, Refusal.BUSY))
        everyone = {member for report in seen.values() for member in report.members}
        return tuple(sorted(everyone - seen.keys()))

    async def _change(self, topic: str, task: TopicTask, *, last: str = "", **what: Any) -> TopicReport:
        """Tell one repository of the bundle, and the next if it does not answer; they tell each other."""
        asking = await self._as_operator()
        seen, members = await asking._look(topic, client=what.get("name", ""))
        inclined = sorted(seen, key=lambda name: (name == last, seen[name].leaving, not seen[name].ready))
        registration = asking._registration(topic, task, **what)
        receipt = await asking._tell(inclined, registration, wrote_by(members), _CHANGED_WITHIN)
        _check_confirmed(topic, receipt)
        return _decode(receipt, TopicReport)

    async def until(
        self,
        topic: str,
        done: Callable[[dict[str, TopicReport]], bool],
        waits: Callable[[dict[str, TopicReport]], str],
        within: float,
        progress: Callable[[str], None] | None = None,
    ) -> dict[str, TopicReport]:
        """Look at a topic until it is so; `waits` says what it waits for."""
        end = _now() + within
        while True:
            seen = await self.show(topic)
            if done(seen):
                return seen
            if progress is not None:
                progress(waits(seen))
            if _now() > end:
                raise Incomplete(f"after {within:g} s, {waits(seen)}")
            await asyncio.sleep(_LOOK_AGAIN)

    # ---- operators

    async def status(self, repository: str) -> RepositoryReport:
        return (await self._present([repository]))[repository]

    async def drain(self, repository: str, *, retire: bool = False) -> None:
        """Make a repository leave all its topics, and end if it is to retire; it takes its time."""
        await self._order(repository, "", TopicTask.RETIRE if retire else TopicTask.DRAIN, WITHIN)

    async def accept_loss(self, repository: str, topic: str) -> TopicReport:
        """Give up what is damaged of a topic at a repository, or awaited there, and nobody else has."""
        return _decode(await self._order(repository, topic, TopicTask.ACCEPT_LOSS, _CHANGED_WITHIN), TopicReport)

    async def _order(self, repository: str, topic: str, task: TopicTask, within: float) -> RegistrationReceipt:
        asking = await self._as_operator()
        principal = (await asking._present([repository]))[repository].principal
        members = BundleMembers({repository: principal})
        return await asking._tell([repository], asking._registration(topic, task), wrote_by(members), within)

    # ---- asking

    async def _as_operator(self) -> "Registrar":
        """Return who asks under an operator's name, which brokers give to nobody else, if we are one; or ourselves."""
        if not self._fabric.is_operator or is_operator_name(self._fabric.name):
            return self
        if self._operator is None:
            fabric = await self._more.enter_async_context(self._fabric.as_operator())
            self._operator = await self._more.enter_async_context(Registrar(fabric))
        return self._operator

    def check_can_change(self, owner: str) -> None:
        """Raise Refused if repositories would refuse to change or delete a topic of this owner for us."""
        principal = self._fabric.principal
        if principal != owner:
            raise Refused(Refusal.NOT_AUTHORISED, f"this topic belongs to {owner}, not to {principal}")
        if principal == ANONYMOUS and not self._fabric.is_operator:
            raise Refused(Refusal.NOT_AUTHORISED, UNPROVED)

    def _registration(self, topic: str, task: TopicTask, **what: Any) -> Registration:
        fabric = self._fabric
        what.setdefault("after", fabric._bundles.ended.get(topic, 0))
        what |= {"token": fabric.token(), "task": task, "principal": fabric.principal}
        registration = Registration(topic, fabric.name, **what)
        check_readable(registration)
        return registration

    async def _ask(self, repository: str, registration: Registration) -> None:
        """Ask one repository for something that not everybody may ask for."""
        await self._fabric.publish(request_topic(self._fabric.name, repository), write([registration]))

    async def _gather(
        self,
        to: str,
        registration: Registration,
        believes: Believes,
        enough: Callable[[dict[str, RegistrationReceipt]], bool],
        silence: Callable[[dict[str, RegistrationReceipt]], float],
        within: float,
    ) -> dict[str, RegistrationReceipt]:
        """What repositories answer to a question: until it is enough, or nobody else has said anything for a while."""
        answers: dict[str, RegistrationReceipt] = {}
        end, again = _now() + within, 0.0
        last = end
        with self._asking(registration, believes) as queue:
            while not enough(answers) and (now := _now()) < end:
                if now >= again:
                    again = now + _AGAIN
                    await self._fabric.publish(to, write([registration]))
                try:
                    receipt = await asyncio.wait_for(queue.get(), min(end, again) - now)
                except TimeoutError:
                    continue
                if receipt.code is Refusal.BUSY:
                    self._busy[receipt.topic] = receipt.reason
                if receipt.code is None and receipt.sender not in answers:
                    answers[receipt.sender] = receipt
                    end = min(last, _now() + silence(answers))
        return answers

    async def _tell(
        self,
        repositories: Sequence[str],
        registration: Registration,
        believes: Believes,
        within: float,
        done: Sequence[Refusal] = (),
    ) -> RegistrationReceipt:
        """Tell one after the other until one has done it; whoever is slow may still answer meanwhile."""
        waiting, asked, refusal = list(repositories), 0, None
        with self._asking(registration, believes) as queue:
            while waiting or asked:
                if waiting:
                    await self._ask(waiting.pop(0), registration)
                    asked += 1
                try:
                    receipt = await asyncio.wait_for(queue.get(), _PATIENCE if waiting else within)
                except TimeoutError:
                    if waiting:
                        continue
                    break
                asked -= 1
                if receipt.code is None or receipt.code in done:
                    return receipt
                if refusal is None or receipt.code is not Refusal.BUSY:  # which says less than that it is not known
                    refusal = Refused(receipt.code, receipt.reason)
                if receipt.code not in (Refusal.UNKNOWN, Refusal.BUSY):
                    break
        raise refusal or Unreachable(f"no answer from {' or '.join(repositories)} within {within:g} s")


def _check_confirmed(topic: str, receipt: RegistrationReceipt | None) -> None:
    if receipt is not None and receipt.reason:
        raise Incomplete(f"{topic}: {receipt.reason}")


def _waits_for(names: Sequence[str]) -> Callable[[dict[str, TopicReport]], str]:
    def waits(seen: dict[str, TopicReport]) -> str:
        late = [name for name in names if name not in seen or not seen[name].ready]
        return f"{', '.join(late)} {'is' if len(late) == 1 else 'are'} not ready yet"

    return waits


def _decode(receipt: RegistrationReceipt, kind: type[S]) -> S:
    return msgspec.json.decode(receipt.report, type=kind)


def _now() -> float:
    return asyncio.get_running_loop().time()
