"""The gate that publishers wait at."""

from amqp_front.gate import Gate


class Connection:
    def __init__(self) -> None:
        self.times = 0

    def let_go(self) -> None:
        self.times += 1


def test_those_held_go_on_once_when_the_gate_opens() -> None:
    gate, held, free = Gate(), Connection(), Connection()
    assert not gate.closed
    gate.set_closed(True)
    assert gate.closed
    gate.hold(held)
    gate.hold(held)
    assert held.times == 0
    gate.set_closed(False)
    gate.set_closed(False)
    assert not gate.closed
    assert (held.times, free.times) == (1, 0)


def test_a_connection_that_is_gone_is_not_called() -> None:
    gate, gone = Gate(), Connection()
    gate.set_closed(True)
    gate.hold(gone)
    gate.forget(gone)
    gate.forget(gone)
    gate.set_closed(False)
    assert gone.times == 0


def test_a_connection_that_is_held_again_while_the_gate_opens_waits_for_the_next_time() -> None:
    gate = Gate()

    class Busy(Connection):
        def let_go(self) -> None:
            super().let_go()
            gate.hold(self)

    busy = Busy()
    gate.set_closed(True)
    gate.hold(busy)
    gate.set_closed(False)
    assert busy.times == 1
    gate.set_closed(False)
    assert busy.times == 2
