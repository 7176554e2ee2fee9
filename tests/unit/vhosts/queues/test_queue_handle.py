"""Answers of queues: values that are there, and values that come."""

import asyncio

import pytest
from support.waiting import until

from routelog.vhosts.queues.queue_handle import Answer, after, pending, then, value_of


async def test_a_value_that_is_there_is_used_in_the_same_turn() -> None:
    used: list[int] = []
    answer = after(3, lambda value: used.append(value) or value + 1)
    assert (answer, used) == (4, [3])
    assert pending(answer) is None
    assert await value_of(answer) == 4


async def test_a_value_that_comes_is_used_when_it_has_come() -> None:
    coming: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    answer = after(coming, lambda value: value + 1)
    assert pending(answer) is answer
    coming.set_result(3)
    assert await value_of(answer) == 4


async def test_the_use_of_a_value_may_have_to_wait_too() -> None:
    loop = asyncio.get_running_loop()
    first: asyncio.Future[int] = loop.create_future()
    second: asyncio.Future[str] = loop.create_future()

    def use(value: int) -> Answer[str]:
        return second

    answer = then(first, use)
    first.set_result(1)
    await asyncio.sleep(0)
    assert not answer.done()
    second.set_result("both")
    assert await answer == "both"


def fail(value: int) -> int:
    raise ValueError(value)


async def test_errors_reach_who_waits() -> None:
    loop = asyncio.get_running_loop()
    coming, failing = loop.create_future(), loop.create_future()
    failed_use, failed_answer = then(coming, fail), then(failing, fail)
    later = then(loop.create_future(), fail)
    late = then(coming, lambda _: failing)
    coming.set_result(7)
    failing.set_exception(KeyError("lost"))
    with pytest.raises(ValueError, match="7"):
        await failed_use
    for each in (failed_answer, late):
        with pytest.raises(KeyError):
            await each
    assert not later.done()


async def test_a_value_is_used_although_nobody_waits_any_more() -> None:
    # It may be a message: whoever asked for it gives it back.
    coming: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    used: list[int] = []
    answer: asyncio.Future[None] = then(coming, used.append)
    waiting: asyncio.Task[None] = asyncio.create_task(value_of(answer))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    coming.set_result(3)
    await until(lambda: used)
    assert used == [3]


async def test_what_is_cancelled_is_never_used() -> None:
    coming: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    answer = then(coming, fail)
    coming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer
