"""A taxonomy: concepts with their parents under one root, and what two concepts have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from discreet.errors import InvalidInput
from discreet.plain import is_a, plain_items, plain_list, plain_text, require_own


@dataclass(frozen=True, slots=True, eq=False)
class Taxonomy:
    """What unordered values have in common.

    Concepts, each with itself and all its ancestors. Build it with `Taxonomy.of`.
    """

    ancestors: Mapping[str, frozenset[str]]
    root: str

    def __post_init__(self) -> None:
        """Copy the concepts as plain text, and refuse ancestors that do not fit together."""
        root, above = plain_text(self.root, "the root of a taxonomy"), {}
        for concept, ups in plain_items(self.ancestors, "the ancestors of a taxonomy"):
            above[_name(concept)] = frozenset(_names(ups, "the ancestors of a concept"))
        for concept, ups in above.items():
            if not ({concept, root} <= ups <= above.keys()) or any(not above[up] <= ups for up in ups):
                raise InvalidInput(
                    f"the ancestors of {concept[:40]!r} are not itself, the root and all of their ancestors; "
                    "make a taxonomy with Taxonomy.of"
                )
        if not above:
            raise InvalidInput("a taxonomy has at least one concept; make it with Taxonomy.of")
        object.__setattr__(self, "ancestors", MappingProxyType(above))
        object.__setattr__(self, "root", root)

    @staticmethod
    def of(parents: Mapping[str, str | Sequence[str]]) -> Taxonomy:
        """From child -> parent, or child -> parents where a concept has several; exactly one root, no cycle."""
        if not isinstance(parents, Mapping):
            raise InvalidInput(
                f"a taxonomy is a mapping such as {{'child': 'parent'}}, got {type(parents).__name__}; "
                "for a plain list use Taxonomy.flat"
            )
        pairs = plain_items(parents, "the parents of a taxonomy")
        above = {_name(child): _names(up, "the parents of a concept") for child, up in pairs}
        concepts = {*above, *(up for ups in above.values() for up in ups)}
        roots = sorted(concept for concept in concepts if not above.get(concept))
        if len(roots) != 1:
            raise InvalidInput(
                f"a taxonomy has exactly one root, this one has {len(roots)}; give every other concept a parent"
            )
        return Taxonomy({concept: _closure(concept, above) for concept in sorted(concepts)}, roots[0])

    @staticmethod
    def flat(categories: Iterable[str], root: str = "any") -> Taxonomy:
        """A list of categories without structure, under one root."""
        listed, root = _names(categories, "the categories of a flat taxonomy"), plain_text(root, "the root's name")
        if root in listed:
            raise InvalidInput(f"the root's name {root!r} is also a category; name the root otherwise with root=...")
        return Taxonomy.of(dict.fromkeys(listed, root))

    @property
    def leaves(self) -> tuple[str, ...]:
        """The concepts that are nobody's ancestor."""
        above = {up for concept, ups in self.ancestors.items() for up in ups if up != concept}
        return tuple(concept for concept in self.ancestors if concept not in above)

    def of_concept(self, concept: str) -> frozenset[str]:
        """The concept's ancestors, itself included."""
        if concept not in self.ancestors:
            raise InvalidInput(
                f"{concept!r} is not in the taxonomy; it has {len(self.ancestors)} concepts under {self.root!r}"
            )
        return self.ancestors[concept]

    def apart(self, one: str, two: str) -> Fraction:
        """The share of the two concepts' ancestors that they do not have in common."""
        first, second = self.of_concept(one), self.of_concept(two)
        union = len(first | second)
        return Fraction(union - len(first & second), union)


def plain_taxonomy(taxonomy: object) -> Taxonomy:
    """A new taxonomy made of plain text; refuses what is not exactly a Taxonomy."""
    own = require_own(taxonomy, Taxonomy, "a semantic distance needs a Taxonomy")
    return Taxonomy(own.ancestors, own.root)


def _name(concept: object) -> str:
    return plain_text(concept, "a concept of a taxonomy")


def _names(concepts: object, what: str) -> tuple[str, ...]:
    """One name or several."""
    if is_a(concepts, str):
        return (_name(concepts),)
    if not isinstance(concepts, Iterable):
        raise InvalidInput(f"{what} are a name or a list of names, got {type(concepts).__name__}")
    return tuple(_name(concept) for concept in plain_list(concepts, what))


def _closure(concept: str, above: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    found, waiting = {concept}, list(above.get(concept, ()))
    while waiting:
        up = waiting.pop()
        if up == concept:
            raise InvalidInput(f"the taxonomy goes round in a circle through {concept!r}")
        if up not in found:
            found.add(up)
            waiting.extend(above.get(up, ()))
    return frozenset(found)
