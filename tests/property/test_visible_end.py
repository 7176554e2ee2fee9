"""Where logs end for readers, whatever is appended, held, written and refused, against a list of batches."""

from __future__ import annotations

import os
import random

import pytest
from unit.log_backend.log_records import records

from routelog.log_backend.journal.journal_groups import JournalGroup, JournalGroups
from routelog.log_backend.partitions.log_end import LogEnd
from routelog.log_backend.partitions.log_intake import LogIntake
from routelog.log_backend.records.durability import Durability

SEEDS = int(os.environ.get("ROUTELOG_TEST_EXAMPLES", "40"))
STEPS = 300
LEVELS = (Durability.MEMORY, Durability.OS, Durability.DISK)


class Log(LogEnd):
    """A log, and its batches: where each begins, and the block that it joined, 0 if none."""

    def __init__(self, number: int, intake: LogIntake, choice: random.Random) -> None:
        super().__init__(number, "q", intake, choice.random() < 0.8, choice.choice(LEVELS))
        self.keeps_log = choice.random() < 0.5
        self.is_stream = self.keeps_log and choice.random() < 0.5
        self.batches: list[tuple[int, int]] = []

    def _has_unflushed(self) -> None:
        pass

    def joins(self, persistent: bool) -> bool:
        """Whether a batch has something in the journal."""
        return self.durability is not Durability.MEMORY and (persistent or self.keeps_log)

    def expected_end(self, promised: int) -> int:
        """Where the first batch begins that is not promised; what is in no block is with those before it."""
        return next((base for base, block in self.batches if block > promised), self.next_offset)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_it_agrees_with_a_list(seed: int) -> None:
    choice = random.Random(seed)
    groups = JournalGroups(lambda waited: None, lambda pressed: None)
    first = choice.randint(1, 9)
    groups.start(first)
    intake = LogIntake(groups, 1 << 60, lambda size: None, lambda batches: None)
    logs = [Log(number, intake, choice) for number in range(1, 5)]
    promised, written = first - 1, 0
    writing: JournalGroup | None = None
    for _ in range(STEPS):
        step = choice.random()
        if step < 0.6:
            log, persistent = choice.choice(logs), choice.random() < 0.6
            base = log.next_offset
            log.append(records([b"x"] * choice.randint(1, 3), persistent=persistent))
            log.batches.append((base, groups.last.position if log.joins(persistent) else 0))
        elif step < 0.65:
            log = choice.choice(logs)
            log.promise(choice.choice(LEVELS))
        elif step < 0.75:
            if groups.is_held:
                groups.let_go()
            else:
                groups.is_held = True
        elif writing is None:
            if groups.first.count and not groups.is_first_held:
                writing = groups.take_first()
        elif choice.random() < 0.3:
            groups.put_back(writing)
            writing = None
        else:
            groups.promise(writing.position)
            promised, written, writing = writing.position, written + 1, None
        for log in logs:
            assert log.visible_end == log.expected_end(promised)
            assert (log.hiding() is None) == (log.visible_end == log.next_offset)
    assert written > 3
