"""Compiles the kernel: the few modules that touch single messages.

They are ordinary typed Python: with ROUTELOG_PURE=1 nothing is compiled, and they run as they are, slowly.

Everything else about the distribution stands in pyproject.toml, and so does the list of these modules.
"""

import os
import platform
import tomllib

from Cython.Build import cythonize
from setuptools import Extension, setup

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


def kernel_modules() -> list[str]:
    """The modules that are compiled."""
    with open("pyproject.toml", "rb") as file:
        modules: list[str] = tomllib.load(file)["tool"]["routelog"]["kernel"]
    return modules


def kernel_extensions() -> list[Extension]:
    """The kernel's modules, as extensions to compile."""
    if os.environ.get("ROUTELOG_PURE"):
        return []
    return [
        Extension(
            module, [f"src/{module.replace('.', '/')}.py"], extra_compile_args=COMPILE_ARGUMENTS
        )
        for module in kernel_modules()
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
