"""The project's sources as syntax trees: who imports whom, and which outside names they use."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Cython reads declarations of another module under this prefix.
CIMPORTS = "cython.cimports."

# All packages are imported under one name; here they are called as their folders are.
DISTRIBUTION = "routelog"


@dataclass(frozen=True)
class Import:
    """One imported name: `from module import name`, or `import module` with an empty name."""

    line: int
    module: str
    name: str
    alias: str


@dataclass(frozen=True)
class SourceModule:
    """One source file, by its path from the root of the repository."""

    path: str
    text: str

    @property
    def name(self) -> str:
        """The dotted name it is imported by: `exchanges.routes.route`, without `routelog`."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def package(self) -> str:
        """The folder at the root that it is in."""
        return self.path.partition("/")[0]

    @property
    def code_line_count(self) -> int:
        """Lines without empty ones, comments and docstrings."""
        written = {
            number
            for number, line in enumerate(self.text.splitlines(), 1)
            if line.strip() and not line.lstrip().startswith("#")
        }
        return len(written - set(self._docstring_lines()))

    def _docstring_lines(self) -> Iterator[int]:
        for node in self.nodes:
            owns = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            if isinstance(node, owns) and ast.get_docstring(node, clean=False) is not None:
                first = node.body[0]
                yield from range(first.lineno, (first.end_lineno or first.lineno) + 1)

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed file."""
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All that the tree consists of: to walk it takes longer than to parse it."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        """Every import, wherever it stands, by absolute name."""
        return tuple(self._imports())

    def _imports(self) -> Iterator[Import]:
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for item in node.names:
                    yield Import(node.lineno, _declared(item.name), "", item.asname or item.name)
            elif isinstance(node, ast.ImportFrom):
                module = _declared(self._absolute(node))
                for item in node.names:
                    if module == DISTRIBUTION:  # from routelog import vhosts
                        yield Import(node.lineno, item.name, "", item.asname or item.name)
                        continue
                    yield Import(node.lineno, module, item.name, item.asname or item.name)

    @cached_property
    def outside_names(self) -> tuple[tuple[int, str], ...]:
        """Line and full dotted name of all that is used from elsewhere: `os.fsync`, `open`.

        A method of a value of unknown type is given as `?.read_text`.
        """
        return tuple(self._outside_names())

    def _outside_names(self) -> Iterator[tuple[int, str]]:
        full_names = self._full_names()
        for node in self.nodes:
            if isinstance(node, ast.Name):
                yield node.lineno, full_names.get(node.id, node.id)
            elif isinstance(node, ast.Attribute):
                chain = _attribute_chain(node)
                root = full_names.get(chain[0], "?")
                yield node.lineno, ".".join((root, *chain[1:])) if root != "?" else f"?.{node.attr}"

    def _full_names(self) -> dict[str, str]:
        names = {}
        for imported in self.imports:
            if imported.name:
                names[imported.alias] = f"{imported.module}.{imported.name}"
            elif imported.alias == imported.module:
                top = imported.module.partition(".")[0]
                names[top] = top
            else:
                names[imported.alias] = imported.module
        return names

    def _absolute(self, node: ast.ImportFrom) -> str:
        if node.level == 0:
            return node.module or ""
        is_package = self.path.endswith("/__init__.py")
        parents = self.name.split(".")
        kept = parents[: len(parents) - node.level + is_package]
        return ".".join([*kept, *([node.module] if node.module else [])])


def _declared(module: str) -> str:
    return module.removeprefix(CIMPORTS).removeprefix(f"{DISTRIBUTION}.")


def _attribute_chain(node: ast.Attribute) -> list[str]:
    """`a.b.c` as its names; the first is empty when the chain begins with a call or the like."""
    chain = [node.attr]
    inner: ast.expr = node.value
    while isinstance(inner, ast.Attribute):
        chain.append(inner.attr)
        inner = inner.value
    chain.append(inner.id if isinstance(inner, ast.Name) else "")
    return chain[::-1]


def read_modules(folder: str) -> list[SourceModule]:
    """All Python files below a folder of the repository, in order of their paths."""
    return [
        SourceModule(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / folder).rglob("*.py"))
    ]


def undocumented(module: SourceModule) -> Iterator[str]:
    """Public classes, functions and methods without a docstring, and the module if it has none."""
    tree = module.tree
    if ast.get_docstring(tree) is None:
        yield f"{module.path}:1: the module"
    yield from _undocumented_in(module.path, tree, "")


def _undocumented_in(path: str, owner: ast.Module | ast.ClassDef, prefix: str) -> Iterator[str]:
    for node in owner.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("_") or _is_described_elsewhere(node):
            continue
        if ast.get_docstring(node) is None:
            yield f"{path}:{node.lineno}: {prefix}{node.name}"
        if isinstance(node, ast.ClassDef):
            yield from _undocumented_in(path, node, f"{prefix}{node.name}.")


def _is_described_elsewhere(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """An overload, an override and a setter have the docstring of what they belong to."""
    names = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    return bool(names & {"overload", "override", "setter", "deleter"})
