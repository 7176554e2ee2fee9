"""Compiles the kernel: the few modules that touch single messages.

With ROUTELOG_PURE=1 nothing is compiled; the same modules run as they are, slowly.

Everything else about the distribution stands in pyproject.toml.
"""

import os
import platform

from Cython.Build import cythonize
from setuptools import Extension, setup

# Ordinary typed Python that also runs uncompiled (ROUTELOG_PURE=1).
HOT_MODULES = (
    "log_backend/records/checksum.py",
    "log_backend/records/record_batch.py",
    "log_backend/records/record_encoding.py",
    "log_backend/records/record_selection.py",
    "log_backend/records/gathering.py",
    "log_backend/journal/journal_entry.py",
    "log_backend/journal/journal_groups.py",
    "log_backend/records/placement.py",
    "log_backend/partitions/log_end.py",
    "log_backend/partitions/log_intake.py",
    "log_backend/partitions/tail.py",
    "log_backend/records/single_record.py",
    "amqp_front/wire/property_walk.py",
    "amqp_front/wire/frame_cutter.py",
    "amqp_front/connections/body_receiver.py",
    "amqp_front/connections/receive_buffer.py",
    "amqp_front/wire/deliver_frames.py",
    "amqp_front/publishing/confirms.py",
    "amqp_front/publishing/confirm_sender.py",
    "vhosts/posting/appending.py",
    "vhosts/posting/fan_out.py",
    "amqp_front/wire/record_attributes.py",
    "vhosts/posting/decision.py",
    "amqp_front/publishing/publisher.py",
    "vhosts/queues/queue.py",
    "exchanges/routes/route_walk.py",
    "exchanges/indexes/topic_lanes.py",
    "exchanges/indexes/topic_trie.py",
    "exchanges/indexes/equal_weights.py",
)

# -O3 without -march=native: a wheel runs on machines other than the one that built it. All processors of the
# last fifteen years with this architecture have an instruction for the checksum. What debuggers want to know
# would take a third of the time.
COMPILE_ARGUMENTS = ["-O3", "-g0", *(["-msse4.2"] if platform.machine() == "x86_64" else [])]

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": True,  # these bytes come from strangers
    "wraparound": False,
    "warn.unreachable": False,  # what only the uncompiled kernel does
}


def kernel_extensions() -> list[Extension]:
    """The hot modules, as extensions to compile."""
    if os.environ.get("ROUTELOG_PURE"):
        return []
    return [
        Extension(
            "routelog." + source.removesuffix(".py").replace("/", "."),
            [f"src/routelog/{source}"],
            extra_compile_args=COMPILE_ARGUMENTS,
        )
        for source in HOT_MODULES
    ]


setup(
    ext_modules=cythonize(
        kernel_extensions(),
        build_dir="build/cython",
        compiler_directives=DIRECTIVES,
        annotate=False,
        quiet=True,
    ),
)
