"""Every error that a client can cause has a reply code and a scope."""

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest

from routelog import broker, exchanges, log_backend, vhosts
from routelog.amqp_front.wire.errors import CODE_NAMES, NOT_ALLOWED, AmqpError, HardError, SoftError
from routelog.amqp_front.wire.refusals import REFUSALS, refusal

# What no request of a client raises, with the reason.
NOT_CAUSED_BY_CLIENTS = {
    "exchanges.bindings.errors.RoutingError": "a base class",
    "exchanges.bindings.field_values.Incomparable": "the front refuses deeper nesting and unknown types first",
    "vhosts.errors.InvalidRequest": "a base class",
    "vhosts.errors.UserExists": "users are made by the operator",
    "vhosts.errors.UserNotFound": "users are made by the operator",
    "vhosts.errors.InvalidUser": "users are made by the operator",
    "vhosts.errors.InvalidPermission": "permissions are given by the operator",
    "vhosts.errors.PublishRefused": "answered with basic.nack",
    "vhosts.errors.InvalidLimit": "limits are set by the operator",
    "vhosts.errors.InvalidPolicy": "policies are set by the operator",
    "vhosts.errors.PolicyNotFound": "policies are set by the operator",
    "vhosts.errors.InvalidVhost": "vhosts are made by the operator",
    "vhosts.errors.InvalidDefinition": "definitions are given by the operator",
    "vhosts.definitions.json_document.MalformedJson": "definitions are given by the operator",
    "vhosts.definitions.definitions.UnknownDefinition": "definitions are given by the operator",
    "vhosts.errors.InvalidParameter": "parameters are set by the operator",
    "vhosts.errors.OutcomePending": "the publisher waits",
    "vhosts.errors.ParameterNotFound": "parameters are set by the operator",
    "vhosts.arguments.pattern.OutOfTime": "what takes too long does not match",
    "vhosts.arguments.pattern.BadPattern": "patterns are given by the operator",
    "broker.waiting.gate.PublishersWait": "told over HTTP; connections of AMQP wait",
    "broker.listeners.listening_sockets.CannotListen": "at start",
    "broker.listeners.tls.CertificateUnusable": "at start, or the certificate before stays",
    "broker.node.configuration.ConfigurationError": "at start",
    "broker.process.data_directory.StartError": "at start",
    "broker.sockets.proxy_header.MalformedProxyHeader": "before there is a connection",
    "log_backend.copies.backup_target.BackupDamaged": "of the command line's tools",
    "log_backend.copies.backup_target.NoBackup": "of the command line's tools",
    "log_backend.copies.backup_writer.BackupExists": "the state of the backup says so",
    "log_backend.copies.backups.BackupRefused": "over HTTP only",
    "log_backend.copies.data_copy.CopyFailed": "the state of the backup says so",
    "log_backend.copies.data_writer.NotBelow": "of backups and other nodes",
    "log_backend.copies.manifest.ManifestDamaged": "of the command line's tools",
    "log_backend.copies.restore.NotEmpty": "of the command line's tools",
    "log_backend.copies.restore.OnlyBackups": "at start",
    "log_backend.copies.restore.RestoreUnfinished": "at start",
    "log_backend.records.property_list.MalformedProperties": "the front makes a HardError of it",
    "log_backend.records.property_list.UnknownFieldType": "as MalformedProperties",
    "log_backend.doors.disk.DirectoryLocked": "at start",
    "log_backend.tools.copy_repair.CopyBeyondRepair": "of copies between nodes",
    "log_backend.tools.data_directory.NoDataDirectory": "of the command line's tools",
    "log_backend.doors.disk.DiskFull": "publishers wait; what finds no room is tried again",
    "log_backend.doors.disk.NoDescriptor": "as DiskFull",
    "log_backend.journal.journal_reader.JournalDamaged": "at start",
    "log_backend.journal.journal_block.UnknownEntry": "at start",
    "vhosts.sessions.session_message.BadSessionMessage": "of another node: its session ends",
    "vhosts.nodes.node_questions.AnswerFailed": "of another node: told to the one that leads",
    "log_backend.segments.compressed_segment.CodecFailed": "in the background, or a damaged disk",
    "log_backend.segments.compressed_segment.CorruptCompression": "a damaged disk: a fault of ours",
    "log_backend.tools.digest_format.BadDigest": "of an operator, or of another node",
    "log_backend.remote.remote_segment.UnknownSegments": "in the background",
    "log_backend.remote.remote_piece.PieceDamaged": "as SegmentDamaged",
    "log_backend.upkeep.segment_compressor.NotCompressed": "in the background",
    "log_backend.upkeep.segment_copy.CopyStopped": "in the background",
    "log_backend.upkeep.compaction_process.CompactionFailed": "in the background",
    "log_backend.upkeep.log_compactor._Outdated": "in the background",
    "log_backend.remote.bucket.BadBucket": "at start",
    "log_backend.remote.bucket.BucketFailed": "in the background",
    "log_backend.remote.bucket.NoObject": "in the background",
    "log_backend.segments.segment_file.SegmentDamaged": "its partition is quarantined: vhosts.QueueQuarantined",
    "log_backend.records.record_batch.CorruptBatch": "a damaged disk: a fault of ours",
    "log_backend.settlement.cursor_snapshot.SnapshotDamaged": "at start",
    "log_backend.metadata.metadata.MetadataCorrupt": "at start",
}


def error_classes() -> Iterator[type[Exception]]:
    for package in (exchanges, vhosts, broker, log_backend):
        for module in modules(package):
            for _, found in inspect.getmembers(module, inspect.isclass):
                if issubclass(found, Exception) and found.__module__ == module.__name__:
                    yield found


def modules(package: ModuleType) -> Iterator[ModuleType]:
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        yield import_module(info.name)


def test_every_error_that_a_client_can_cause_is_in_the_table() -> None:
    names = {
        f"{each.__module__}.{each.__qualname__}".removeprefix("routelog."): each
        for each in error_classes()
    }
    assert set(names) >= set(NOT_CAUSED_BY_CLIENTS), "the list names errors that are gone"
    missing = {
        name
        for name, each in names.items()
        if each not in REFUSALS and name not in NOT_CAUSED_BY_CLIENTS
    }
    assert not missing
    assert not {each for name, each in names.items() if name in NOT_CAUSED_BY_CLIENTS} & set(
        REFUSALS
    )


@pytest.mark.parametrize("kind", REFUSALS, ids=lambda kind: kind.__name__)
def test_entries_are_codes_that_exist_with_a_scope(kind: type[Exception]) -> None:
    code, scope = REFUSALS[kind]
    assert code in CODE_NAMES
    assert scope in (HardError, SoftError)


def test_the_text_of_the_error_becomes_the_reason() -> None:
    answer = refusal(vhosts.VhostNotFound("nowhere"))
    assert isinstance(answer, HardError)
    assert (answer.code, answer.reason) == (NOT_ALLOWED, "vhost nowhere not found")


def test_an_amqp_error_is_its_own_answer() -> None:
    error: AmqpError = SoftError(NOT_ALLOWED, "no")
    assert refusal(error) is error


def test_anything_else_is_a_fault_of_ours() -> None:
    for error in (KeyError("x"), ValueError(), AssertionError(), OSError(28, "disk full")):
        assert refusal(error) is None
