"""The page of names: everything public, with its signature and its own words."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from textwrap import dedent
from types import ModuleType
from typing import Any

from documentation.markdown import format_block, format_code, format_table, get_first_paragraph, join_parts

import discreet
import discreet.constraints
import discreet.mechanisms
import discreet.sample
import discreet.sdc
import discreet.synthetic
import discreet.verification
import papers

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Ask": (
        "Custodian",
        "Client",
        "Answer",
        "Posterior",
        "QueryOptions",
        "Accuracy",
        "Schema",
        "load_schema",
        "Ledger",
    ),
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
SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Example):\n((?:    .*\n?|\n)+)", re.MULTILINE)
TITLES = {"Args": "Arguments"}
ANNOTATED = re.compile(r"^Annotated\[((?:[^\[\],]|\[[^\]]*\])+), .*\]$")
FUNCTIONS = (classmethod, staticmethod, property, cached_property)


def list_members(kind: type) -> Iterator[tuple[str, object]]:
    """The public methods and properties of a class, those of our own classes that it is made of included."""
    names_seen: set[str] = set()
    for one in kind.__mro__:
        if not one.__module__.startswith("discreet"):
            continue
        for name, member in vars(one).items():
            is_ours = inspect.isfunction(member) or isinstance(member, FUNCTIONS)
            if is_ours and not name.startswith("_") and name not in names_seen:
                names_seen.add(name)
                yield name, member


def unwrap(member: object) -> Any:
    """The function inside a method or a property."""
    if isinstance(member, property):
        return member.fget
    if isinstance(member, cached_property):
        return member.func
    return getattr(member, "__func__", member)


def list_undocumented(names: Mapping[str, object]) -> list[str]:
    """Names, methods and properties without words of their own."""
    silent = [name for name, one in names.items() if not read_docstring(one)]
    for name, one in names.items():
        if isinstance(one, type):
            silent += [f"{name}.{part}" for part, member in list_members(one) if not read_docstring(unwrap(member))]
    return silent


def read_docstring(one: object) -> str:
    """A docstring; what dataclasses write by themselves is none."""
    docstring = inspect.getdoc(one) or ""
    return "" if isinstance(one, type) and docstring.startswith(f"{one.__name__}(") else docstring


def format_docstring(one: object) -> str:
    """A docstring as Markdown: the names in its sections as a list, its example as code."""
    return SECTION.sub(_format_docstring_section, read_docstring(one)).rstrip()


def _format_docstring_section(match: re.Match[str]) -> str:
    title, body = match[1], dedent(match[2]).strip()
    head = f"**{TITLES.get(title, title)}**"
    if title == "Example":
        return join_parts(head, format_block(body, "pycon"))
    items = re.split(r"\n(?=\S)", body) if title not in {"Returns", "Yields"} else [body]
    if title not in {"Returns", "Yields"}:
        items = [re.sub(r"^(\S+):", r"`\1`:", item) for item in items]
    lines = "\n".join(f"- {' '.join(item.split())}" for item in items)
    return f"{head}\n\n{lines}\n\n"


def strip_annotation(annotation: object) -> object:
    """A type without what is annotated to it."""
    return ANNOTATED.sub(r"\1", annotation) if isinstance(annotation, str) else annotation


def collect_names() -> dict[str, object]:
    """Every public name with what it is; a name of a namespace that `discreet` has too is there once."""
    main_names = {name: getattr(discreet, name) for names in GROUPS.values() for name in names}
    return main_names | {
        f"{module.__name__}.{name}": getattr(module, name)
        for module, names in MODULES.items()
        for name in names
        if name not in main_names
    }


def list_groups() -> dict[str, list[str]]:
    """The names on the page by group; those of a namespace by their full name, unless `discreet` has them too."""
    main_groups = {title: list(names) for title, names in GROUPS.items()}
    public = {name for names in GROUPS.values() for name in names}
    return main_groups | {
        format_code(module.__name__): [name if name in public else f"{module.__name__}.{name}" for name in names]
        for module, names in MODULES.items()
    }


def format_page() -> str:
    """The whole page: what there is, then every name."""
    objects = collect_names()
    sections = {
        title: [name for name in names if "." in name or title in GROUPS] for title, names in list_groups().items()
    }
    return join_parts(
        "# Python",
        "What most people need is imported from `discreet`, the rest from the public namespaces below, nothing from "
        "anywhere deeper. `import discreet` is light.",
        "## What there is",
        *(
            join_parts(f"**{title}**", format_table(("name", "what it is"), _format_lines(names)))
            for title, names in list_groups().items()
        ),
        *(
            join_parts(f"## {title}", *(_format_section(name, objects[name]) for name in names))
            for title, names in sections.items()
        ),
    )


def _format_lines(names: list[str]) -> Iterator[tuple[str, str]]:
    objects = collect_names()
    for name in names:
        yield (
            f"[{format_code(name.rpartition('.')[2])}](#{build_anchor(name)})",
            get_first_paragraph(read_docstring(objects[name])),
        )


def build_anchor(name: str) -> str:
    """Where a name stands on the page."""
    return f"name-{name.replace('.', '-')}"


def _format_section(name: str, one: object) -> str:
    head = f"### {format_code(name)} {{ #{build_anchor(name)} }}"
    if not callable(one):
        return join_parts(head, f"{format_code(type(one).__name__)}: {read_docstring(one)}")
    if not isinstance(one, type):
        return join_parts(
            head, format_block(format_signature(name.rpartition(".")[2], one), "python"), format_docstring(one)
        )
    parts = [_format_member(name.rpartition(".")[2], part, member) for part, member in list_members(one)]
    return join_parts(head, _format_constructor(one), format_docstring(one), _format_fields(one), *parts)


def _format_constructor(kind: type) -> str:
    """How one is made by its name, where that is for users."""
    if issubclass(kind, Exception) or kind.__init__ is object.__init__ or getattr(kind, "_is_protocol", False):
        return ""
    return format_block(f"class {format_signature(kind.__name__, kind)}", "python")


def _format_fields(kind: type) -> str:
    """The fields of a value whose docstring does not explain them as arguments."""
    if not is_dataclass(kind) or "\nArgs:\n" in read_docstring(kind):
        return ""
    rows = [
        (format_code(one.name), format_code(strip_annotation(one.type)))
        for one in fields(kind)
        if not one.name.startswith("_")
    ]
    return format_table(("holds", "kind"), rows)


def _format_member(owner: str, name: str, member: object) -> str:
    function = unwrap(member)
    if isinstance(member, property | cached_property):
        kind = inspect.signature(function).return_annotation
        return join_parts(f"#### {format_code(f'{owner}.{name}')}", f"{format_code(kind)}: {read_docstring(function)}")
    signature_text = format_signature(name, function, bound=not isinstance(member, staticmethod))
    return join_parts(
        f"#### {format_code(f'{owner}.{name}')}", format_block(signature_text, "python"), format_docstring(function)
    )


def format_signature(name: str, one: Any, bound: bool = False) -> str:
    """A signature on one line where it fits, else a parameter a line."""
    signature = inspect.signature(one)
    parameters = [
        one.replace(annotation=strip_annotation(one.annotation))
        for one in list(signature.parameters.values())[1 if bound else 0 :]
    ]
    signature = signature.replace(parameters=parameters)
    line = _tidy_signature(f"{name}{signature}")
    if len(line) <= WIDEST:
        return line
    ending = (
        ""
        if signature.return_annotation is signature.empty or isinstance(one, type)
        else f" -> {signature.return_annotation}"
    )
    lines = "".join(f"    {part},\n" for part in _format_parameters(parameters))
    return _tidy_signature(f"{name}(\n{lines}){ending}")


def _format_parameters(parameters: list[inspect.Parameter]) -> Iterator[str]:
    has_star = False
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY and not has_star:
            yield "*"
        has_star = has_star or one.kind in {one.KEYWORD_ONLY, one.VAR_POSITIONAL}
        yield str(one)


def _tidy_signature(text: str) -> str:
    """Annotations are texts, which `inspect` puts into quotes; defaults that are objects are shown by their kind."""
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    return re.sub(r"<([\w.]+) object at 0x[0-9a-f]+>|<(?:class|function) '?([\w.]+)[^>]*>", r"\1\2", text)
