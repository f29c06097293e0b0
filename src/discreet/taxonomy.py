"""A taxonomy: concepts with their parents under one root, and what two concepts have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from discreet.errors import InvalidInput


@dataclass(frozen=True, slots=True, eq=False)
class Taxonomy:
    """What unordered values have in common.

    Concepts, each with itself and all its ancestors. Build it with `Taxonomy.of`.
    """

    ancestors: Mapping[str, frozenset[str]]
    root: str

    @staticmethod
    def of(parents: Mapping[str, str | Sequence[str]]) -> Taxonomy:
        """From child -> parent, or child -> parents where a concept has several; exactly one root, no cycle."""
        if not isinstance(parents, Mapping):
            raise InvalidInput(
                f"a taxonomy is a mapping such as {{'child': 'parent'}}, got {type(parents).__name__}; "
                "for a plain list use Taxonomy.flat"
            )
        above = {_name(child): _names(up, "the parents of a concept") for child, up in parents.items()}
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
        listed = _names(categories, "the categories of a flat taxonomy")
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


def _name(concept: object) -> str:
    if not isinstance(concept, str):
        raise InvalidInput(f"a concept of a taxonomy is named by text, got {type(concept).__name__}")
    return concept


def _names(concepts: object, what: str) -> tuple[str, ...]:
    """One name or several."""
    if isinstance(concepts, str):
        return (concepts,)
    if not isinstance(concepts, Iterable):
        raise InvalidInput(f"{what} are a name or a list of names, got {type(concepts).__name__}")
    return tuple(_name(concept) for concept in concepts)


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
