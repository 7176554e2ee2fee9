"""Values that operators keep with the node."""

from pathlib import Path

import pytest
from support.queue_samples import running_node

from routelog.vhosts import GlobalParameters, InvalidParameter, ParameterNotFound
from routelog.vhosts.stored.global_parameters import PARAMETERS_MAX


async def test_values_are_there_after_a_restart(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        parameters = GlobalParameters(node.writer)
        await parameters.put("b/ é", {"x": [1, None, "é"]})
        await parameters.put("a", 1)
        await parameters.put("a", 2)
        await parameters.put("gone", True)
        await parameters.delete("gone")
    async with running_node(tmp_path) as node:
        parameters = GlobalParameters(node.writer)
        parameters.load(node.logs.metadata)
        assert list(parameters.all().items()) == [("a", 2), ("b/ é", {"x": [1, None, "é"]})]
        assert parameters.get("a") == 2
        with pytest.raises(ParameterNotFound):
            await parameters.delete("gone")


async def test_what_is_too_much_is_refused(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        parameters = GlobalParameters(node.writer)
        for name, value in (("", 1), ("x" * 256, 1), ("x", "v" * 65_536)):
            with pytest.raises(InvalidParameter):
                await parameters.put(name, value)
        for number in range(PARAMETERS_MAX):
            await parameters.put(str(number), number)
        with pytest.raises(InvalidParameter, match="1000 already"):
            await parameters.put("one more", 1)
        await parameters.put("0", "changed")
