"""Compiles the kernel: the few modules that touch single messages.

With ROUTELOG_PURE=1 nothing is compiled; the same modules run as they are, slowly.

Everything else about the distribution stands in pyproject.toml.
"""

import os
import platform
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

# Ordinary typed Python that also runs uncompiled (ROUTELOG_PURE=1).
HOT_MODULES = (
    "log_backend/checksum.py",
    "log_backend/record_batch.py",
    "log_backend/record_encoding.py",
    "log_backend/record_selection.py",
    "log_backend/gathering.py",
    "log_backend/journal_entry.py",
    "log_backend/journal_groups.py",
    "log_backend/placement.py",
    "log_backend/log_end.py",
    "log_backend/log_intake.py",
    "log_backend/tail.py",
    "log_backend/single_record.py",
    "amqp_front/property_walk.py",
    "amqp_front/frame_cutter.py",
    "amqp_front/body_inlet.py",
    "amqp_front/inlet.py",
    "amqp_front/deliver_frames.py",
    "amqp_front/confirms.py",
    "amqp_front/confirm_sender.py",
    "vhosts/appending.py",
    "vhosts/sharing_out.py",
    "amqp_front/record_attributes.py",
    "amqp_front/route_search.py",
    "amqp_front/publisher.py",
    "vhosts/queue.py",
    "exchanges/route_walk.py",
    "exchanges/topic_lanes.py",
    "exchanges/topic_trie.py",
    "exchanges/equal_weights.py",
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
    """The hot modules that exist, as extensions to compile."""
    if os.environ.get("ROUTELOG_PURE"):
        return []
    return [
        Extension(
            source.removesuffix(".py").replace("/", "."),
            [source],
            extra_compile_args=COMPILE_ARGUMENTS,
        )
        for source in HOT_MODULES
        if Path(source).exists()
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
