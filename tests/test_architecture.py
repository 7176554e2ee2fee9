"""The rules of the house, enforced: who imports whom, the four doors, size, names, docstrings."""

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest
from support.source_tree import DISTRIBUTION, ROOT, SourceModule, read_modules, undocumented

# Package -> the packages of ours that it may import.
IMPORT_TABLE = {
    "log_backend": set(),
    "exchanges": set(),
    "vhosts": {"exchanges", "log_backend"},
    "mirror_cluster": {"log_backend"},
    "spark_bridge": {"log_backend"},
    "broker": {"mirror_cluster", "vhosts", "exchanges", "log_backend"},
    "amqp_front": {"broker", "mirror_cluster", "vhosts", "exchanges", "log_backend"},
    "management": {"broker", "mirror_cluster", "vhosts", "exchanges", "log_backend"},
    "benchmarks": {"broker", "log_backend"},
}

# Package -> its folders, bottom to top: a folder imports those below it. "." are the files beside them.
ROOMS = {
    "log_backend": (
        "doors",
        "measures",
        "records",
        "loop",
        "metadata",
        "settlement",
        "segments",
        "journal",
        "remote",
        "partitions",
        "upkeep",
        "copies",
        ".",
        "tools",
    ),
    "broker": (
        "node",
        "loop",
        "identity",
        "waiting",
        "sockets",
        "listeners",
        "passing",
        "sessions",
        "process",
    ),
    "amqp_front": (
        "wire",
        "sockets",
        "node",
        "publishing",
        "consuming",
        "transactions",
        "connections",
        "server",
    ),
    "vhosts": (
        ".",
        "counters",
        "messages",
        "arguments",
        "filters",
        "stored",
        "partitions",
        "publishing",
        "rules",
        "queues",
        "delays",
        "vhost",
        "people",
        "definitions",
        "sessions",
        "nodes",
    ),
    "mirror_cluster": (
        ".",
        "protocol",
        "coordination",
        "links",
        "replica",
        "node",
        "standby",
        "commands",
    ),
    "exchanges": (
        "bindings",
        "indexes",
        "topology",
        "routes",
    ),
    "management": (
        "sampling",
        "shapes",
        "calls",
        "metrics",
        "views",
        "figures",
        "findings",
        "pages",
        "things",
        "server",
        "commands",
    ),
    "spark_bridge": (
        "logs",
        "columns",
        "reading",
        "writing",
        "lakes",
        "index",
        ".",
    ),
    "benchmarks": (
        "traffic",
        "brokers",
        "perf",
        "studies",
        "storms",
        "comparison",
        ".",
    ),
}

# Spark's executors find and decode records by the stored formats, and know nothing else of the log.
FORMAT_MODULES = {
    "log_backend.remote.bucket",
    "log_backend.remote.bucket_address",
    "log_backend.segments.compressed_segment",
    "log_backend.segments.log_directory",
    "log_backend.segments.partition_file",
    "log_backend.records.property_list",
    "log_backend.records.record_batch",
    "log_backend.remote.remote_segment",
    "log_backend.segments.segment_index",
}

# What a package must never know, beside packages of ours.
UNKNOWN_LIBRARIES = {
    "log_backend": {"pamqp", "pyspark"},
    "exchanges": {"asyncio", "pamqp", "rocksdict", "uvloop"},
    "vhosts": {"pyspark"},
    "broker": {"pamqp", "pyspark"},
    "management": {"pamqp", "pyspark"},
    "mirror_cluster": {"pamqp", "pyspark"},
    "spark_bridge": {"asyncio", "uvloop"},
}

FILES_MAX = 25  # of a folder: more are a hall without walls
FOLDERS = (*IMPORT_TABLE, "docs", "tests")
MADE = {".c", ".pyc", ".so"}  # by a compiler
DRAWERS = {"common", "helper", "helpers", "manager", "misc", "util", "utils"}


# Who may ask the loop itself for a call behind what it reads, and why that is no lane of the scheduler.
CALL_SOON = {
    "log_backend/loop/scheduler.py": "its pass",
    "log_backend/journal/journal.py": "once: what a pass has appended is one block",
    "log_backend/no_log_store.py": "as the journal's: who waits is told behind what it reads",
    "log_backend/upkeep/flusher.py": "once: what a pass has removed is one job of the thread",
    "log_backend/journal/metadata_writer.py": "answers, in the order of the changes",
    "broker/loop/cork.py": "once: the confirms of a pass are one frame",
    "broker/sessions/session_socket.py": "once: the messages of a turn are one write",
    "broker/sessions/front_node.py": "once: the settlements of a turn are one message",
}

# Who writes to RocksDB or to files: docs/internals/beside-the-journal.md says of each why it tells only of what
# is committed.
WRITERS = {
    "broker/process/copy_digest.py",
    "log_backend/copies/arriving_copy.py",
    "log_backend/copies/copies.py",
    "log_backend/copies/data_writer.py",
    "log_backend/block_applier.py",
    "log_backend/journal/block_writer.py",
    "log_backend/journal/journal_extent.py",
    "log_backend/journal/journal_files.py",
    "log_backend/journal/metadata_writer.py",
    "log_backend/log_store.py",
    "log_backend/metadata/schedule_store.py",
    "log_backend/recovery.py",
    "log_backend/remote/folder_bucket.py",
    "log_backend/segments/compaction_pass.py",
    "log_backend/segments/segment.py",
    "log_backend/segments/segment_forms.py",
    "log_backend/segments/segment_removal.py",
    "log_backend/segments/segment_writer.py",
    "log_backend/tools/log_repair.py",
    "log_backend/upkeep/log_compactor.py",
    "log_backend/upkeep/partition_removal.py",
    "log_backend/upkeep/partition_snapshot.py",
    "log_backend/upkeep/segment_compressor.py",
    "mirror_cluster/node/cluster_member.py",
    "mirror_cluster/node/lease_keeper.py",
    "mirror_cluster/node/incarnation.py",
    "mirror_cluster/node/journal_storage.py",
    "mirror_cluster/node/own_etcd.py",
    "mirror_cluster/standalone.py",
    "mirror_cluster/standby/standby.py",
}


# A longer module has a partner: a test file of its name in the same folder of tests/unit.
LINES_WITHOUT_PARTNER = 80

# Package -> modules that have none yet, by their names. This list only gets shorter.
WITHOUT_PARTNER = {
    "log_backend": {
        "backup_target",
        "backup_writer",
        "data_directory",
        "journal_supply",
        "log_dump",
        "log_verification",
        "schedule_store",
        "segment_scan",
        "segment_writer",
        "stored_blocks",
    },
    "exchanges": {
        "topic_lanes",
    },
    "vhosts": {
        "decision",
        "definition_entries",
        "definitions_export",
        "definitions_import",
        "delay_book",
        "delivery",
        "due_delivery",
        "errors",
        "internal_publish",
        "message_move",
        "priority_levels",
        "queue_rules",
        "ready_bytes",
        "stateful_route",
        "topology_keeper",
        "user_record",
    },
    "mirror_cluster": {
        "child_process",
        "cluster_status",
        "copy_sender",
        "etcd_coordinator",
        "events",
        "follow_sender",
        "follower",
        "node_door",
        "standby",
    },
    "spark_bridge": {
        "confirmed_publisher",
        "delta_batches",
        "delta_lake",
        "envelope",
        "export_commands",
        "http_logs",
        "index_commands",
        "object_logs",
        "offset_limit",
        "parquet_lake",
        "queue_selection",
        "record_table",
        "tiered_logs",
    },
    "broker": {
        "broker",
        "http_listeners",
        "listeners",
        "log_commands",
    },
    "amqp_front": {
        "body_receiver",
        "channel_transactions",
        "command",
        "commit_plan",
        "connection_methods",
        "connection_snapshot",
        "firehose",
        "operator_messages",
    },
    "management": {
        "access_changes",
        "api_calls",
        "backup_commands",
        "broker_side",
        "change_table",
        "changes",
        "counter_metrics",
        "http_connection",
        "log_readers",
        "message_commands",
        "node",
        "node_metrics",
        "object_metrics",
        "queue_commands",
        "routes",
        "visit",
    },
    "benchmarks": {
        "__main__",
        "broker_process",
        "connection",
        "consumer",
        "crowd_storms",
        "growth",
        "machine",
        "management_storms",
        "options",
        "outcome",
        "perf",
        "producer",
        "publish_run",
        "run",
        "session",
        "storms",
        "workload",
    },
    "src": {
        "__main__",
        "composition",
        "node_commands",
        "operators_door",
    },
}


@cache
def fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


@dataclass(frozen=True)
class Door:
    """A way to the outside: the names that lead through it, and the files where they may stand."""

    names: tuple[str, ...]
    files: tuple[str, ...]

    def violations(self, module: SourceModule) -> Iterator[str]:
        """Uses of this door in a file that is not one of its own."""
        if any(fnmatch(module.path, file) for file in self.files):
            return
        for line, name in module.outside_names:
            if fits(name, self.names):
                yield f"{module.path}:{line}: {name}"


DOORS = {
    "clock": Door(
        names=(
            "time.time",
            "time.time_ns",
            "time.monotonic",
            "time.monotonic_ns",
            "time.perf_counter",
            "time.perf_counter_ns",
            "time.sleep",
            "datetime.date.today",
            "datetime.datetime.now",
            "datetime.datetime.today",
            "datetime.datetime.utcnow",
        ),
        # A command that asks the API has no log, no loop and no clock but the machine's.
        files=("log_backend/doors/clock.py", "management/commands/*"),
    ),
    "disk": Door(
        names=(
            "open",
            "io.open",
            "mmap.mmap",
            "os.f*sync",
            "os.ftruncate",
            "os.open",
            "os.posix_fallocate",
            "os.pread*",
            "os.pwrite*",
            "os.remove",
            "os.rename",
            "os.replace",
            "os.truncate",
            "os.unlink",
            "shutil.*",
            "tempfile.*",
            "*.read_bytes",
            "*.read_text",
            "*.write_bytes",
            "*.write_text",
        ),
        # The command line reads the configuration file, and the token of this machine, which the operators'
        # door writes.
        files=(
            "broker/listeners/shared_page.py",  # memory, of no file
            "log_backend/doors/direct_writes.py",
            "log_backend/doors/disk.py",
            "management/commands/api_address.py",
            "src/routelog/node_commands.py",
            "src/routelog/operators_door.py",
        ),
    ),
    "network": Door(
        names=("socket.*", "asyncio.open_*connection", "asyncio.start_*server"),
        files=(
            "amqp_front/*",
            "broker/*",
            "management/*",
            "mirror_cluster/*",
            "spark_bridge/*",
            "src/*",
        ),
    ),
    "randomness": Door(
        names=("random.*", "secrets.*", "os.urandom", "uuid.uuid1", "uuid.uuid4"),
        files=("log_backend/doors/randomness.py",),
    ),
}

MODULES = [
    *(module for package in IMPORT_TABLE for module in read_modules(package)),
    *(module for module in read_modules("src") if module.path.count("/") == 2),  # not by the links
]
NAMES = {module.name for module in MODULES}
# Benchmarks measure the real world, so they walk through every door.
BEHIND_DOORS = [module for module in MODULES if module.package != "benchmarks"]


@pytest.fixture(scope="module", autouse=True)
def trees() -> Iterator[None]:
    """Lets go of the syntax trees at the end: each later look at all garbage would go through them."""
    yield
    for module in MODULES:
        for name in ("tree", "nodes"):
            vars(module).pop(name, None)


def kernel_modules() -> set[str]:
    """The compiled kernel's modules, as setup.py reads them."""
    modules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["routelog"]["kernel"]
    return {name.removeprefix(f"{DISTRIBUTION}.") for name in modules}


KERNEL = kernel_modules()


def report(violations: Iterable[str], rule: str) -> None:
    """Fail with every violation, one a line, under the rule they break."""
    found = sorted(set(violations))
    assert not found, f"{rule}:\n  " + "\n  ".join(found)


# Who may import whom


def _wires_everything(module: SourceModule) -> bool:
    """The command line, and what puts a node together: they may import everything."""
    return module.package == "src"


def forbidden_packages(module: SourceModule) -> Iterator[str]:
    if _wires_everything(module):
        return
    allowed = IMPORT_TABLE[module.package] | {module.package}
    for imported in module.imports:
        target = imported.module.partition(".")[0]
        if target in {*IMPORT_TABLE, "tests"} - allowed:
            yield f"{module.path}:{imported.line}: imports {imported.module}"


def inner_imports(module: SourceModule, names: set[str]) -> Iterator[str]:
    """Imports of a neighbour's inside; its face is what its `__init__` gives out."""
    if _wires_everything(module) or module.package == "benchmarks":
        return
    for imported in module.imports:
        neighbour = imported.module.partition(".")[0]
        if neighbour not in IMPORT_TABLE or neighbour == module.package:
            continue
        target = f"{imported.module}.{imported.name}"
        inner = imported.module if target not in names else target
        if inner == neighbour or _may_look_inside(module, inner):
            continue
        yield f"{module.path}:{imported.line}: {inner} is inside {neighbour}"


def _may_look_inside(module: SourceModule, inner: str) -> bool:
    """Spark reads the stored formats; compiled modules call each other without the face between."""
    if module.package == "spark_bridge":
        return inner in FORMAT_MODULES
    return module.name in KERNEL and inner in KERNEL


def unknown_libraries(module: SourceModule) -> Iterator[str]:
    unknown = UNKNOWN_LIBRARIES.get(module.package, set())
    for imported in module.imports:
        if imported.module.partition(".")[0] in unknown:
            yield f"{module.path}:{imported.line}: imports {imported.module}"


def first_cycle(modules: list[SourceModule]) -> list[str]:
    """Module names that import each other in a ring, the first one repeated; empty if none do."""
    names = {module.name for module in modules}
    graph: dict[str, set[str]] = {}
    for module in modules:
        pairs = ((item.module, f"{item.module}.{item.name}") for item in module.imports)
        targets = {target if target in names else source for source, target in pairs}
        graph[module.name] = targets & names
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        ring: list[str] = error.args[1]
        return ring
    return []


def test_packages_import_only_what_the_table_allows() -> None:
    found = [line for module in MODULES for line in forbidden_packages(module)]
    report(found, "the import table forbids")


def test_neighbours_import_only_a_packages_face() -> None:
    found = [line for module in MODULES for line in inner_imports(module, NAMES)]
    report(found, "import from the package itself, not from its inside")


def test_packages_do_not_know_what_is_not_theirs() -> None:
    found = [line for module in MODULES for line in unknown_libraries(module)]
    report(found, "this package must not know that library")


@pytest.mark.parametrize("package", IMPORT_TABLE)
def test_modules_of_a_package_do_not_import_in_circles(package: str) -> None:
    ring = first_cycle([module for module in MODULES if module.package == package])
    assert not ring, "import cycle: " + " -> ".join(ring)


def room_of(name: str) -> str:
    """The folder of a module within its package; "." for a file beside the folders."""
    parts = name.split(".")
    return parts[1] if len(parts) == 3 else "."


def upward_imports(module: SourceModule, names: set[str]) -> Iterator[str]:
    """Imports of a folder above the module's own in its package."""
    order = ROOMS.get(module.package, ())
    if not order or module.path.endswith("__init__.py"):
        return
    here = order.index(room_of(module.name))
    for imported in module.imports:
        target = f"{imported.module}.{imported.name}"
        inner = target if target in names else imported.module
        if inner.partition(".")[0] != module.package or inner == module.package:
            continue
        if order.index(room_of(inner)) > here:
            yield f"{module.path}:{imported.line}: {inner} is above"


def test_folders_import_only_those_below_them() -> None:
    found = [line for module in MODULES for line in upward_imports(module, NAMES)]
    report(found, "the order of the folders forbids")


def test_an_import_of_a_folder_above_is_found() -> None:
    upward = "from routelog.log_backend.journal.journal import Journal"
    downward = "from routelog.log_backend.records.checksum import crc32c"
    path = "log_backend/segments/segment.py"
    assert list(upward_imports(some_module(path, upward), NAMES))
    assert not list(upward_imports(some_module(path, downward), NAMES))


def bare_imports(module: SourceModule) -> Iterator[str]:
    """Imports of our packages without the name that they have when they are installed."""
    packages = "|".join(IMPORT_TABLE)
    bare = re.compile(rf"^\s*(from|import) (cython\.cimports\.)?({packages})\b")
    for number, line in enumerate(module.text.splitlines(), 1):
        if bare.match(line):
            yield f"{module.path}:{number}: {line.strip()}"


def test_packages_are_imported_under_one_name() -> None:
    modules = [*MODULES, *read_modules("tests"), *read_modules("docs")]
    report((line for module in modules for line in bare_imports(module)), "import routelog.…")
    assert list(bare_imports(some_module("vhosts/queue.py", "from exchanges import Route")))


# The outside, and the size of things


@pytest.mark.parametrize("door", DOORS)
def test_the_outside_is_reached_through_its_door(door: str) -> None:
    found = [line for module in BEHIND_DOORS for line in DOORS[door].violations(module)]
    report(found, f"pass the {door} in; it is reached directly only in {DOORS[door].files}")


def loop_time(module: SourceModule) -> Iterator[str]:
    """Ways to the event loop's time beside the scheduler."""
    always, calls = re.compile(r"\bsleep\(0\)|^TURN_SECONDS\b"), re.compile(r"loop\.call_soon\b")
    for number, line in enumerate(module.text.splitlines(), 1):
        if always.search(line) or (module.path not in CALL_SOON and calls.search(line)):
            yield f"{module.path}:{number}: {line.strip()}"


def test_the_loops_time_is_given_by_the_scheduler() -> None:
    found = [line for module in BEHIND_DOORS for line in loop_time(module)]
    report(found, "wait in a lane of log_backend/loop/scheduler.py")
    assert list(loop_time(some_module("vhosts/queues/queue.py", "await asyncio.sleep(0)")))
    assert list(loop_time(some_module("vhosts/queues/queue.py", "TURN_SECONDS = 0.0005")))
    assert list(loop_time(some_module("vhosts/queues/queue.py", "self._loop.call_soon(go_on)")))


def writes(module: SourceModule) -> bool:
    """Whether a module writes to RocksDB, or to files of a data directory, and is no door to them."""
    stores = r"\b_?(metadata|store)\.(apply|apply_each|delete_range)\b"
    disks = r"\b_?disk\.(write|write_synced|fill_with_zeros|truncate|rename)\b|\breplace_file\("
    is_door = module.path.startswith(("log_backend/doors/", "log_backend/metadata/metadata.py"))
    return not is_door and re.search(f"{stores}|{disks}", module.text) is not None


def test_what_is_written_beside_the_journal_is_known() -> None:
    page = (ROOT / "docs" / "internals" / "beside-the-journal.md").read_text()
    nodes = [module for module in BEHIND_DOORS if module.package != "spark_bridge"]
    found = {module.path for module in nodes if writes(module)}
    report(found ^ WRITERS, "say in docs/internals/beside-the-journal.md why it is committed")
    report((path for path in WRITERS if Path(path).name not in page), "the page does not have it")
    assert writes(some_module("vhosts/q.py", "self._metadata.apply([change])"))
    assert writes(some_module("vhosts/q.py", "partial(store.delete_range, first, end)"))
    assert writes(some_module("vhosts/q.py", "self._disk.rename(one, other)"))


def full_folders(files: Iterable[Path]) -> list[str]:
    """Folders that hold too many files, not counting what a compiler made."""
    counts = Counter(file.parent for file in files if file.suffix not in MADE)
    return [f"{folder}: {count} files" for folder, count in counts.items() if count > FILES_MAX]


def test_no_folder_holds_too_many_files() -> None:
    paths = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    full = full_folders(path.relative_to(ROOT) for path in paths if path.is_file())
    report(full, f"more than {FILES_MAX} files; they have more than one idea")
    files = [Path("tests", f"test_{number}.py") for number in range(FILES_MAX + 1)]
    assert full_folders(files) == ["tests: 26 files"]
    assert full_folders([*files[1:], Path("tests", "test_1.so")]) == []


def test_no_module_is_a_drawer() -> None:
    drawers = [
        module.path
        for module in [*MODULES, *read_modules("tests"), *read_modules("docs")]
        if DRAWERS & set(module.name.split("."))
    ]
    report(drawers, "name the file for the noun in it")


def test_public_names_have_docstrings() -> None:
    found = [line for module in MODULES for line in undocumented(module)]
    report(found, "say what it is and what a caller cannot guess")


# Partner tests


def partner_of(module: SourceModule) -> Path:
    """The test file of a module."""
    path = ROOT / "tests" / "unit" / module.path
    return path.with_name(f"test_{path.name}")


def needs_partner(module: SourceModule) -> bool:
    """Whether a module is so long that it needs a test of its own."""
    is_face = module.path.endswith("__init__.py")
    return not is_face and module.code_line_count > LINES_WITHOUT_PARTNER


def test_long_modules_have_a_partner() -> None:
    long = [module for module in MODULES if needs_partner(module)]
    found = {(each.package, Path(each.path).stem) for each in long if not partner_of(each).exists()}
    known = {(package, name) for package, names in WITHOUT_PARTNER.items() for name in names}
    new = (f"{package}: {name}" for package, name in found - known)
    report(new, "write a test file of the module's name in the same folder of tests/unit")
    gone = (f"{package}: {name}" for package, name in known - found)
    report(gone, "it has a partner, or needs none: take it out of WITHOUT_PARTNER")
    assert needs_partner(some_module("vhosts/q.py", "x = 1\n" * 81))
    text = 'def f():\n    """A.\n    B."""\n\n    # C\n' + "    x = 1\n" * 79
    assert not needs_partner(some_module("vhosts/q.py", text))


# The table itself


def test_every_package_is_in_the_table_and_in_the_distribution() -> None:
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert folders == set(IMPORT_TABLE)
    links = {
        path.name: path for path in (ROOT / "src" / DISTRIBUTION).iterdir() if path.is_symlink()
    }
    assert set(links) == folders
    for name, link in links.items():
        assert link.readlink() == Path("..", "..", name)


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {module.path.rpartition("/")[0] for module in MODULES}
    bare = [folder for folder in folders if not (ROOT / folder / "__init__.py").exists()]
    report(bare, "without __init__.py it is left out of the distribution")


@cache
def installed_packages() -> Mapping[str, list[str]]:
    return packages_distributions()


def declared_libraries(package: str) -> set[str]:
    """Import names of the libraries that pyproject.toml gives a package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {
        "amqp_front": ["otel"],
        "benchmarks": ["dev"],
        "log_backend": ["remote"],
        "spark_bridge": ["lake", "spark"],
    }.get(package, [])
    wanted = [*project["dependencies"]]
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    distributions = {re.match(r"[\w-]+", line)[0].lower() for line in wanted}  # type: ignore[index]
    return {
        name
        for name, owners in installed_packages().items()
        if distributions & {owner.lower() for owner in owners}
    }


def test_the_locks_have_what_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    broker, extra = project["dependencies"] + extras["build"], [*chain(*extras.values())]
    for lock, wanted in (("requirements.lock", broker), ("requirements-dev.lock", broker + extra)):
        pinned = set(re.findall(r"^([\w.-]+)==", (ROOT / lock).read_text(), re.MULTILINE))
        names = {re.match(r"[\w-]+", line)[0].lower() for line in wanted}  # type: ignore[index]
        report(names - pinned, f"{lock} lacks them: make lock")


@pytest.mark.parametrize("package", IMPORT_TABLE)
def test_every_library_is_declared(package: str) -> None:
    # Compiled, the kernel does not import cython; uncompiled it is a matter for developers.
    known = {*IMPORT_TABLE, *sys.stdlib_module_names, *declared_libraries(package), "cython"}
    found = [
        f"{module.path}:{imported.line}: {imported.module}"
        for module in MODULES
        if module.package == package
        for imported in module.imports
        if imported.module.partition(".")[0] not in known
    ]
    report(found, "name its distribution in pyproject.toml and docs/internals/dependencies.md")


# The checks find what they look for


def some_module(path: str, text: str) -> SourceModule:
    return SourceModule(path, text)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("exchanges/topic.py", "from routelog.log_backend import PartitionLog"),
        ("log_backend/journal/journal.py", "import routelog.amqp_front.wire.frame_cutter"),
        ("vhosts/queues/queue.py", "def f():\n    from routelog.amqp_front import Frame"),
        ("vhosts/queues/queue.py", "if TYPE_CHECKING:\n    import mirror_cluster as peers"),
        ("broker/process/broker.py", "import routelog.management"),
        (
            "management/server/server.py",
            "from routelog.amqp_front.wire.frame_cutter import FrameCutter",
        ),
        ("exchanges/topic.py", "from cython.cimports.log_backend.record_batch import walk"),
        ("vhosts/queues/queue.py", "from tests.conftest import broker"),
        ("broker/process/run.py", "from routelog.amqp_front import Frame"),
    ],
)
def test_a_forbidden_package_is_found(path: str, text: str) -> None:
    assert list(forbidden_packages(some_module(path, text)))


def test_an_allowed_package_is_not_reported() -> None:
    assert not list(
        forbidden_packages(some_module("vhosts/q.py", "from routelog.exchanges import Route"))
    )
    assert not list(
        forbidden_packages(some_module("src/routelog/a.py", "import routelog.management"))
    )
    assert not list(forbidden_packages(some_module("vhosts/q.py", "from .queue import Queue")))


@pytest.mark.parametrize(
    ("path", "text", "is_inside"),
    [
        ("vhosts/queues/queue.py", "from routelog.log_backend import PartitionLog", False),
        (
            "vhosts/queues/queue.py",
            "from routelog.log_backend.segments.segment import Segment",
            True,
        ),
        ("vhosts/queues/queue.py", "import routelog.log_backend.segments.segment", True),
        ("vhosts/queues/queue.py", "from routelog.log_backend.segments import segment", True),
        (
            "log_backend/journal/journal.py",
            "from routelog.log_backend.segments.segment import Segment",
            False,
        ),
        (
            "spark_bridge/reader.py",
            "from routelog.log_backend.records.record_batch import columns",
            False,
        ),
        (
            "spark_bridge/reader.py",
            "from routelog.log_backend.segments.segment import Segment",
            True,
        ),
        (
            "amqp_front/wire/deliver_frames.py",
            "from routelog.log_backend.records.record_batch import walk",
            False,
        ),
        (
            "amqp_front/connections/channel.py",
            "from routelog.log_backend.records.record_batch import walk",
            True,
        ),
    ],
)
def test_an_import_of_a_neighbours_inside_is_found(path: str, text: str, is_inside: bool) -> None:
    found = list(inner_imports(some_module(path, text), {"log_backend.segments.segment"}))
    assert bool(found) == is_inside


def test_an_import_cycle_is_found_also_through_the_face() -> None:
    modules = [
        some_module("vhosts/__init__.py", "from routelog.vhosts.queues.queue import Queue"),
        some_module("vhosts/queues/queue.py", "from routelog.vhosts.messages import consumer"),
        some_module("vhosts/messages/consumer.py", "from routelog.vhosts import Queue"),
        some_module("vhosts/vhost/vhost.py", "from routelog.vhosts.queues.queue import Queue"),
    ]
    assert set(first_cycle(modules)) == {
        "vhosts",
        "vhosts.queues.queue",
        "vhosts.messages.consumer",
    }
    assert first_cycle(modules[1:]) == []


@pytest.mark.parametrize(
    ("door", "text"),
    [
        ("clock", "import time\ntime.time()"),
        ("clock", "from time import monotonic as now\nnow()"),
        ("clock", "import time as t\nclock = t.monotonic"),
        ("clock", "from datetime import datetime\ndatetime.now()"),
        ("disk", "open('x')"),
        ("disk", "import os\nos.fdatasync(3)"),
        ("disk", "from pathlib import Path\nPath('x').read_text()"),
        ("disk", "from shutil import rmtree\nrmtree('x')"),
        ("network", "from socket import create_server\ncreate_server(('', 1))"),
        ("network", "import asyncio\nasyncio.open_unix_connection()"),
        ("randomness", "import random\nrandom.random()"),
        ("randomness", "def f():\n    import secrets\n    return secrets.token_bytes(8)"),
        ("randomness", "from uuid import uuid4\nname = uuid4"),
    ],
)
def test_a_way_round_a_door_is_found(door: str, text: str) -> None:
    assert list(DOORS[door].violations(some_module("vhosts/queues/queue.py", text)))


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.strftime('%Y')",
        "import asyncio\nasyncio.get_running_loop().time()",
        "def f(journal):\n    return journal.open()",
        "from datetime import datetime\ndatetime.fromtimestamp(0)",
        "def f(clock):\n    return clock.time()",
    ],
)
def test_what_is_no_door_is_not_reported(text: str) -> None:
    module = some_module("vhosts/queues/queue.py", text)
    assert not [line for door in DOORS.values() for line in door.violations(module)]


def test_a_missing_docstring_is_found() -> None:
    text = (
        "class A:\n    '''x'''\n    def b(self): ...\n    def _c(self): ...\n"
        "    @override\n    def d(self): ...\n"
        "async def e(): ...\ndef _f():\n    def g(): ...\n"
    )
    found = [line.rpartition(" ")[2] for line in undocumented(some_module("vhosts/q.py", text))]
    assert found == ["module", "A.b", "e"]


# A number in compiled code that a comment calls by the name of a constant.
COPIED_CONSTANT = re.compile(r"^ .*\b[0-9][0-9A-Fx_]*\b[^#]*# [^a-z]*\b[A-Z]{3,}_?[A-Z_]*\b")


@pytest.mark.parametrize("name", sorted(KERNEL))
def test_the_kernel_copies_no_constant(name: str) -> None:
    (text,) = (module.text for module in MODULES if module.name == name)
    assert not [line for line in text.splitlines() if COPIED_CONSTANT.search(line)]


def test_a_copied_constant_is_found() -> None:
    assert COPIED_CONSTANT.search("    size = 88 + length  # ENTRY_HEADER_BYTES, HEADER_BYTES")
    assert COPIED_CONSTANT.search("    put_u32(block, 0, 0x314A4C52)  # MAGIC")
    assert not COPIED_CONSTANT.search("MAGIC = 0x314A4C52  # RLJ1")


def test_what_is_compiled_says_so_in_its_first_line() -> None:
    marked = {module.name for module in MODULES if module.text.startswith("# cython:")}
    assert marked == KERNEL


def hidden_overrides(modules: Iterable[SourceModule], kernel: set[str]) -> Iterator[str]:
    """Methods that have the name of a `cfunc` of a base class: compiled callers go on to call that one."""
    bases: dict[str, set[str]] = {}
    compiled: dict[str, set[str]] = {}
    ordinary: dict[str, set[str]] = {}
    for module in modules:
        for each in module.nodes:
            if isinstance(each, ast.ClassDef):
                methods = [item for item in each.body if isinstance(item, ast.FunctionDef)]
                in_c = {item.name for item in methods if _is_cfunc(item)}
                bases[each.name] = {ast.unparse(base) for base in each.bases}
                compiled[each.name] = in_c if module.name in kernel else set()
                ordinary[each.name] = {item.name for item in methods} - in_c
    for name in bases:
        for above in _above(name, bases):
            for hidden in ordinary[name] & compiled.get(above, set()):
                yield f"{name}.{hidden} does not override that of {above}"


def _is_cfunc(function: ast.FunctionDef) -> bool:
    return "cython.cfunc" in map(ast.unparse, function.decorator_list)


def _above(name: str, bases: Mapping[str, set[str]]) -> Iterator[str]:
    for base in bases.get(name, ()):
        yield base
        yield from _above(base, bases)


def test_what_overrides_a_method_of_a_typed_class_is_called_by_compiled_code() -> None:
    report(hidden_overrides(MODULES, KERNEL), "a cfunc cannot be overridden: make it a ccall")


def test_an_override_that_compiled_code_does_not_call_is_found() -> None:
    text = (
        "class A:\n    @cython.cfunc\n    def f(self): ...\n    @cython.ccall\n    def g(self): ...\n"
        "class B(A): ...\nclass C(B):\n    def f(self): ...\n    def g(self): ...\n"
    )
    module = some_module("vhosts/q.py", text)
    assert list(hidden_overrides([module], {module.name})) == ["C.f does not override that of A"]
