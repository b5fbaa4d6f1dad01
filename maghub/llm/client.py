"""The one client: cache before payment, a bounded pool, retries, a budget, and asking again.

Example:
    client = open_client("openai:gpt-5", Settings(limits=Limits(requests=100)))
    texts = [answer.text for answer in client.map(requests)]
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar

from maghub.errors import MaghubError
from maghub.llm.backend import Backend, Refused
from maghub.llm.budget import Budget
from maghub.llm.cache import AnswerCache
from maghub.llm.messages import Answer, Request, request_key
from maghub.llm.retrying import RetryPolicy, call

T = TypeVar("T")
REFUSED = "refused"
"""``Answer.finish`` of a request that the server would not answer; ``text`` is its reason."""
WAITING_PER_CALL = 4
HOPELESS = 3
"""So many refusals before anything was answered mean that it is not about the single request."""


class BadAnswer(Exception):
    """An answer that cannot be used: ``reason`` for the counts, ``reply`` for the model."""

    def __init__(self, reason: str, reply: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.reply = reply


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What became of one item: a value, or the reason why it was dropped."""

    value: T | None
    reason: str | None = None
    answer: str = ""


class Client:
    """Asks a backend; see the module. One client serves one run.

    ``counts`` has: asked (requests handed in), cached (answered from the cache), sent (paid
    for), retried, asked again, dropped.
    """

    def __init__(
        self,
        backend: Backend,
        cache: AnswerCache | None = None,
        budget: Budget | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        self.backend = backend
        self.cache = cache if cache is not None else AnswerCache()
        self.budget = budget or Budget()
        self.retry = retry or RetryPolicy()
        self.counts: Counter[str] = Counter()
        self.models: set[str] = set()
        self._lock = threading.Lock()
        self._answered = self._refused = 0

    # -- answers -------------------------------------------------------------------------------

    def map(self, requests: Iterable[Request]) -> Iterator[Answer]:
        """The answers in the order of the requests, few requests being held at a time.

        Equal requests are paid for once. An answer is in the cache before it is yielded, and
        whatever is on its way when something goes wrong is waited for and kept.

        Raises:
            BudgetReached: The budget is spent.
            MaghubError: The server cannot be reached, refuses the key, or does not know the model.
        """
        with ThreadPoolExecutor(self.backend.concurrency, thread_name_prefix="llm") as pool:
            waiting: deque[_Pending] = deque()
            run = _Run(pool)
            try:
                for group in _groups(requests, self.backend.batch_size):
                    waiting.append(self._start(run, group))
                    if len(waiting) >= WAITING_PER_CALL * self.backend.concurrency:
                        yield from self._finish(run, waiting.popleft())
                while waiting:
                    yield from self._finish(run, waiting.popleft())
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _start(self, run: _Run, group: Sequence[Request]) -> _Pending:
        keys = [self._key(request) for request in group]
        known = [self.cache.get(key) for key in keys]
        missing: dict[str, Request] = {}
        for key, request, answer in zip(keys, group, known, strict=True):
            if answer is None and key not in run.under_way:
                missing[key] = request
        self._count(asked=len(group), cached=len(group) - len(missing))
        run.under_way.update(missing)
        future = run.pool.submit(self._pay, run, missing) if missing else None
        return _Pending(keys, known, list(missing), future)

    def _finish(self, run: _Run, pending: _Pending) -> Iterator[Answer]:
        refused: dict[str, Answer] = {}
        if pending.future is not None:
            refused = pending.future.result()
            run.under_way.difference_update(pending.paid)
        for key, answer in zip(pending.keys, pending.known, strict=True):
            found = answer or self.cache.get(key) or refused.get(key)
            # A repetition of a request that was refused while this one waited for it.
            found = found or Answer("the same request was refused before", REFUSED)
            if found.model:
                self.models.add(found.model)
            yield found

    def _key(self, request: Request) -> str:
        return request_key(self.backend.model, request, self.backend.parameters(request))

    def _pay(self, run: _Run, batch: dict[str, Request]) -> dict[str, Answer]:
        """Get the answers of a batch into the cache; gives those that were refused."""
        if run.failure is not None:  # what waits behind a failure is not sent any more
            raise run.failure
        try:
            return self._send(batch)
        except BaseException as error:
            run.failure = error
            raise

    def _send(self, batch: dict[str, Request]) -> dict[str, Answer]:
        def work() -> None:
            self.budget.reserve(len(batch))
            self._count(sent=len(batch))
            answers = self.backend.answer(list(batch.values()))
            for key, answer in zip(batch, answers, strict=True):
                self.cache.put(key, answer)
                self.budget.spend(answer)
            with self._lock:
                self._answered += len(batch)

        where = getattr(self.backend, "host", self.backend.model)
        try:
            call(work, self.retry, where, next(iter(batch)), lambda: self._count(retried=1))
        except Refused as error:
            with self._lock:
                self._refused += 1
                hopeless = not self._answered and self._refused >= HOPELESS
            if hopeless:
                fix = "set or leave out parameters with --param NAME=VALUE|none"
                raise MaghubError(
                    f"refuses every request ({error})", where=where, fix=fix
                ) from None
            return {key: Answer(str(error), REFUSED) for key in batch}
        return {}

    def _count(self, **more: int) -> None:
        with self._lock:
            self.counts.update({name.replace("_", " "): n for name, n in more.items()})

    # -- checked answers -----------------------------------------------------------------------

    def ask(
        self,
        count: int,
        make: Callable[[int], Request],
        parse: Callable[[int, Answer], T],
        *,
        again: int = 2,
        progress: Callable[[Iterable[Answer], int], Iterable[Answer]] | None = None,
    ) -> list[Outcome[T]]:
        """Ask for ``count`` items and read the answers; what cannot be read is asked for again.

        Args:
            count: Items.
            make: Request of an item; called again in each round, so that pictures are not held.
            parse: Value of an answer, or ``BadAnswer``, whose ``reply`` is then sent to the model
                together with its bad answer.
            again: Further tries per item; after them it is dropped, with the last reason.
            progress: Wraps the answers of a round, for a progress bar.
        """
        found: list[Outcome[T]] = [Outcome(None, "not asked")] * count
        turns: dict[int, list[tuple[str, str]]] = {item: [] for item in range(count)}
        for left in range(again, -1, -1):
            todo = sorted(turns)
            answers: Iterable[Answer] = self.map(_with_turns(make, turns, todo))
            answers = progress(answers, len(todo)) if progress else answers
            for item, answer in zip(todo, answers, strict=True):
                found[item], reply = _read(item, answer, parse)
                if reply is None or not left:
                    del turns[item]
                else:
                    turns[item].append((answer.text, reply))
            self._count(asked_again=len(turns))
            if not turns:
                break
        self._count(dropped=sum(one.reason is not None for one in found))
        return found

    def close(self) -> None:
        """Close the cache and the connections."""
        self.cache.close()
        self.backend.close()


@dataclass
class _Run:
    """One pass over requests: its pool, the keys being paid for, and what went wrong first."""

    pool: ThreadPoolExecutor
    under_way: set[str] = field(default_factory=set)
    failure: BaseException | None = None


@dataclass(frozen=True)
class _Pending:
    """A group of requests: what is known of it, and the payment under way for the rest."""

    keys: list[str]
    known: list[Answer | None]
    paid: list[str]
    future: Future[dict[str, Answer]] | None


def _groups(requests: Iterable[Request], size: int) -> Iterator[list[Request]]:
    rest = iter(requests)
    while group := list(islice(rest, size)):
        yield group


def _with_turns(
    make: Callable[[int], Request], turns: dict[int, list[tuple[str, str]]], todo: list[int]
) -> Iterator[Request]:
    for item in todo:
        request = make(item)
        for answer, reply in turns[item]:
            request = request.again(answer, reply)
        yield request


def _read(
    item: int, answer: Answer, parse: Callable[[int, Answer], T]
) -> tuple[Outcome[T], str | None]:
    """The outcome of an answer, and what to say to the model if it shall try again."""
    if answer.finish == REFUSED:
        return Outcome(None, "refused by the server", answer.text), None
    try:
        return Outcome(parse(item, answer), None, answer.text), None
    except BadAnswer as error:
        return Outcome(None, error.reason, answer.text), error.reply
