"""What a piece of Python uses of some packages, read from its text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Uses:
    """What was found.

    Attributes:
        names: Names of modules, with the module that each was taken from.
        members: Members, with the name of the class that the variable was annotated with; a key
            of a dictionary counts as a member of the annotated typed dictionary.
    """

    names: set[tuple[str, str]] = field(default_factory=set)
    members: set[tuple[str, str]] = field(default_factory=set)

    def read(self, text: str) -> None:
        """Add what *text* uses. A variable has its class from its annotation alone."""
        tree = ast.parse(text)
        modules = dict(self._imported(tree))
        for node in tree.body:
            variables = dict(_annotated(node))
            for inner in ast.walk(node):
                if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
                    if inner.value.id in variables:
                        self.members.add((variables[inner.value.id], inner.attr))
                    elif inner.value.id in modules:
                        self.names.add((modules[inner.value.id], inner.attr))
                elif isinstance(inner, ast.AnnAssign) and isinstance(inner.value, ast.Dict):
                    kind = _class_name(inner.annotation)
                    keys = [key.value for key in inner.value.keys if isinstance(key, ast.Constant)]
                    self.members.update((kind, str(key)) for key in keys)

    def _imported(self, tree: ast.Module) -> Iterator[tuple[str, str]]:
        """Note what is imported by name; yield what may be a module, and its full name."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from ((alias.name, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                for alias in node.names:
                    self.names.add((node.module, alias.name))
                    yield alias.name, f"{node.module}.{alias.name}"


def _annotated(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield each variable whose class is written down, and the name of that."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation is not None:
            yield node.arg, _class_name(node.annotation)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, _class_name(node.annotation)
        elif isinstance(node, ast.ExceptHandler) and node.name and node.type is not None:
            yield node.name, _class_name(node.type)


def _class_name(annotation: ast.expr) -> str:
    return annotation.id if isinstance(annotation, ast.Name) else ""
