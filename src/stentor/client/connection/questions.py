"""What a client has asked its broker, and who waits for the answers."""

import asyncio
from collections.abc import Iterable

from stentor.model.errors import LinkBroken, Unresponsive
from stentor.nodes.client_api import Answer, AnswerQuery, CompleteFlush


class Questions:
    """Those of one client, by token."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[Answer | None]] = {}

    def expect(self, token: int) -> None:
        self._waiting[token] = asyncio.get_running_loop().create_future()

    async def answered(self, token: int, url: str, timeout: float | None) -> Answer | None:
        """Return the answer to a question that is expected."""
        try:
            return await asyncio.wait_for(self._waiting[token], timeout)
        except TimeoutError:
            raise Unresponsive(f"the broker at {url} did not answer within {timeout:g} s") from None
        finally:
            self._waiting.pop(token, None)

    def answer(self, effect: CompleteFlush | AnswerQuery) -> None:
        future = self._waiting.get(effect.answer.token if isinstance(effect, AnswerQuery) else effect.token)
        if future is None or future.done():
            return
        if isinstance(effect, AnswerQuery):
            future.set_result(effect.answer)
        elif effect.reason:
            future.set_exception(LinkBroken(f"the link to the broker broke ({effect.reason}): events may be lost"))
        else:
            future.set_result(None)

    def give_up(self, tokens: Iterable[int]) -> None:
        """Nobody will answer these."""
        for token in tokens:
            if not self._waiting[token].done():
                self._waiting[token].set_result(None)

    def fail(self, error: Exception) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)
