"""The page of names: everything public, with its signature and its own words."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

from documentation.markdown import block, code, first_sentence, page, table

import discreet
import discreet.constraints
import discreet.mechanisms
import discreet.sample
import discreet.sdc
import discreet.synthetic
import discreet.verification
import papers

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Ask": ("Custodian", "Client", "Answer", "Posterior", "Accuracy", "Schema", "load_schema", "Ledger"),
    "Priors and guarantees": ("Prior", "Distance", "Taxonomy", "Guarantee"),
    "Mechanisms": (
        "refine",
        "Refinement",
        "DiscreteLaplace",
        "DiscreteGaussian",
        "Staircase",
        "AddNoise",
        "global_sensitivity",
    ),
    "Constraints": ("reconcile", "total", "at_least", "at_most", "rho"),
    "Protected files": (
        "microaggregate",
        "generalize",
        "mdav_swap",
        "t_close",
        "Release",
        "measure_anonymity",
        "check_claim",
        "compare_release",
    ),
    "Audit": ("audit_mechanism", "Audit"),
    "Errors": (
        "DiscreetError",
        "InvalidInput",
        "BudgetExceeded",
        "Unsupported",
        "Unavailable",
        "ClaimFailed",
        "Internal",
    ),
}
"""The names of `discreet` itself, by what they are for."""
MODULES: Mapping[ModuleType, tuple[str, ...]] = {
    discreet.mechanisms: tuple(discreet.mechanisms.__all__),
    discreet.constraints: tuple(discreet.constraints.__all__),
    discreet.sdc: tuple(discreet.sdc.__all__),
    discreet.synthetic: tuple(discreet.synthetic.__all__),
    discreet.verification: tuple(discreet.verification.__all__),
    papers: tuple(papers.__all__),
    discreet.sample: ("write_registry",),
}
"""The public namespaces, and what else is imported from a module of its own."""
WIDEST = 96
FUNCTIONS = (classmethod, staticmethod, property, cached_property)


def members(kind: type) -> Iterator[tuple[str, object]]:
    """The public methods and properties of a class, those of our own classes that it is made of included."""
    seen: set[str] = set()
    for one in kind.__mro__:
        if not one.__module__.startswith("discreet"):
            continue
        for name, member in vars(one).items():
            is_ours = inspect.isfunction(member) or isinstance(member, FUNCTIONS)
            if is_ours and not name.startswith("_") and name not in seen:
                seen.add(name)
                yield name, member


def plain(member: object) -> Any:
    """The function inside a method or a property."""
    if isinstance(member, property):
        return member.fget
    if isinstance(member, cached_property):
        return member.func
    return getattr(member, "__func__", member)


def undocumented(names: Mapping[str, object]) -> list[str]:
    """Names, methods and properties without words of their own."""
    silent = [name for name, one in names.items() if not words(one)]
    for name, one in names.items():
        if isinstance(one, type):
            silent += [f"{name}.{part}" for part, member in members(one) if not words(plain(member))]
    return silent


def words(one: object) -> str:
    """A docstring; what dataclasses write by themselves is none."""
    found = inspect.getdoc(one) or ""
    return "" if isinstance(one, type) and found.startswith(f"{one.__name__}(") else found


def everything() -> dict[str, object]:
    """Every public name with what it is; a name of a namespace that `discreet` has too is there once."""
    own = {name: getattr(discreet, name) for names in GROUPS.values() for name in names}
    return own | {
        f"{module.__name__}.{name}": getattr(module, name)
        for module, names in MODULES.items()
        for name in names
        if name not in own
    }


def groups() -> dict[str, list[str]]:
    """The names on the page by group; those of a namespace by their full name, unless `discreet` has them too."""
    own = {title: list(names) for title, names in GROUPS.items()}
    public = {name for names in GROUPS.values() for name in names}
    return own | {
        code(module.__name__): [name if name in public else f"{module.__name__}.{name}" for name in names]
        for module, names in MODULES.items()
    }


def text() -> str:
    """The whole page: what there is, then every name."""
    found = everything()
    sections = {title: [name for name in names if "." in name or title in GROUPS] for title, names in groups().items()}
    return page(
        "# Python",
        "What most people need is imported from `discreet`, the rest from the public namespaces below, nothing from "
        "anywhere deeper. `import discreet` is light.",
        "## What there is",
        *(page(f"**{title}**", table(("name", "what it is"), _lines(names))) for title, names in groups().items()),
        *(page(f"## {title}", *(_section(name, found[name]) for name in names)) for title, names in sections.items()),
    )


def _lines(names: list[str]) -> Iterator[tuple[str, str]]:
    found = everything()
    for name in names:
        yield f"[{code(name.rpartition('.')[2])}](#{anchor(name)})", first_sentence(words(found[name]))


def anchor(name: str) -> str:
    """Where a name stands on the page."""
    return f"name-{name.replace('.', '-')}"


def _section(name: str, one: object) -> str:
    head = f"### {code(name)} {{ #{anchor(name)} }}"
    if not callable(one):
        return page(head, f"{code(type(one).__name__)}: {words(one)}")
    if not isinstance(one, type):
        return page(head, block(signature(name.rpartition(".")[2], one), "python"), words(one))
    parts = [_member(name.rpartition(".")[2], part, member) for part, member in members(one)]
    return page(head, _made(one), words(one), _fields(one), *parts)


def _made(kind: type) -> str:
    """How one is made by its name, where that is for users."""
    if issubclass(kind, Exception) or kind.__init__ is object.__init__ or getattr(kind, "_is_protocol", False):
        return ""
    return block(f"class {signature(kind.__name__, kind)}", "python")


def _fields(kind: type) -> str:
    """What a value holds."""
    if not is_dataclass(kind):
        return ""
    rows = [(code(one.name), code(one.type)) for one in fields(kind) if not one.name.startswith("_")]
    return table(("holds", "kind"), rows)


def _member(owner: str, name: str, member: object) -> str:
    function = plain(member)
    if isinstance(member, property | cached_property):
        kind = inspect.signature(function).return_annotation
        return page(f"#### {code(f'{owner}.{name}')}", f"{code(kind)}: {words(function)}")
    told = signature(name, function, bound=not isinstance(member, staticmethod))
    return page(f"#### {code(f'{owner}.{name}')}", block(told, "python"), words(function))


def signature(name: str, one: Any, bound: bool = False) -> str:
    """A signature on one line where it fits, else a parameter a line."""
    found = inspect.signature(one)
    parameters = list(found.parameters.values())[1 if bound else 0 :]
    found = found.replace(parameters=parameters)
    line = _tidy(f"{name}{found}")
    if len(line) <= WIDEST:
        return line
    ending = "" if found.return_annotation is found.empty or isinstance(one, type) else f" -> {found.return_annotation}"
    lines = "".join(f"    {part},\n" for part in _parts(parameters))
    return _tidy(f"{name}(\n{lines}){ending}")


def _parts(parameters: list[inspect.Parameter]) -> Iterator[str]:
    named = False
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY and not named:
            yield "*"
        named = named or one.kind in {one.KEYWORD_ONLY, one.VAR_POSITIONAL}
        yield str(one)


def _tidy(told: str) -> str:
    """Annotations are texts, which `inspect` puts into quotes; defaults that are objects are shown by their kind."""
    told = re.sub(r"(: |-> )'([^']*)'", r"\1\2", told)
    return re.sub(r"<([\w.]+) object at 0x[0-9a-f]+>|<(?:class|function) '?([\w.]+)[^>]*>", r"\1\2", told)
