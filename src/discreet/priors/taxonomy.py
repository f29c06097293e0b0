"""A taxonomy: concepts with their parents under one root, and what two concepts have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from types import MappingProxyType

from discreet.errors import InvalidInput
from discreet.untrusted import CheckedValue, copy_items, copy_list, copy_text, has_type, require_exact_class, set_fields


@dataclass(frozen=True, slots=True)
class Taxonomy(CheckedValue):
    """A hierarchy of categories: concepts, each with itself and all its ancestors. Make it with `Taxonomy.of`.

    Args:
        ancestors: The ancestors of each concept, itself and the root included.
        root: The concept above all others.

    Raises:
        InvalidInput: There is no concept, or the ancestors do not fit together.

    Example:
        >>> from discreet import Taxonomy
        >>> jobs = Taxonomy.of({"nurse": "care", "carer": "care", "cook": "hospitality",
        ...                     "care": "any", "hospitality": "any"})
        >>> jobs.leaves
        ('carer', 'cook', 'nurse')
        >>> jobs.compute_dissimilarity("nurse", "carer")
        Fraction(1, 2)
    """

    ancestors: Mapping[str, frozenset[str]]
    root: str

    def __post_init__(self) -> None:
        """Copy the concepts as plain text, and refuse ancestors that do not fit together."""
        root, ancestors = copy_text(self.root, "the root of a taxonomy"), {}
        for concept, concept_ancestors in copy_items(self.ancestors, "the ancestors of a taxonomy"):
            ancestors[_copy_name(concept)] = frozenset(_copy_names(concept_ancestors, "the ancestors of a concept"))
        for concept, own_ancestors in ancestors.items():
            is_complete = {concept, root} <= own_ancestors <= ancestors.keys()
            if not is_complete or any(not ancestors[ancestor] <= own_ancestors for ancestor in own_ancestors):
                rule = f"the ancestors of {concept[:40]!r} are not itself, the root and all of their ancestors"
                raise InvalidInput(f"{rule}; make a taxonomy with Taxonomy.of")
        if not ancestors:
            raise InvalidInput("a taxonomy has at least one concept; make it with Taxonomy.of")
        # In order of their names, so that taxonomies that are equal are alike in all that follows from them.
        set_fields(self, ancestors=MappingProxyType(dict(sorted(ancestors.items()))), root=root)

    def __hash__(self) -> int:
        """Hash what is quick to see: a taxonomy may have thousands of concepts."""
        return hash((self.root, len(self.ancestors)))

    @staticmethod
    def of(parents: Mapping[str, str | Sequence[str]]) -> Taxonomy:
        """From child -> parent, or child -> parents where a concept has several; exactly one root, no cycle."""
        if not isinstance(parents, Mapping):
            rule = "a taxonomy is a mapping such as {'child': 'parent'}"
            raise InvalidInput(f"{rule}, got {type(parents).__name__}; for a plain list use Taxonomy.flat")
        pairs = copy_items(parents, "the parents of a taxonomy")
        parents_of = {_copy_name(child): _copy_names(parent, "the parents of a concept") for child, parent in pairs}
        concepts = sorted({*parents_of, *chain.from_iterable(parents_of.values())})
        roots = [concept for concept in concepts if not parents_of.get(concept)]
        if len(roots) != 1:
            problem = f"a taxonomy has exactly one root, this one has {len(roots)}"
            raise InvalidInput(f"{problem}; give every other concept a parent")
        return Taxonomy({concept: _collect_ancestors(concept, parents_of) for concept in concepts}, roots[0])

    @staticmethod
    def flat(categories: Iterable[str], root: str = "any") -> Taxonomy:
        """A list of categories without structure, under one root."""
        names, root = _copy_names(categories, "the categories of a flat taxonomy"), copy_text(root, "the root's name")
        if root in names:
            raise InvalidInput(f"the root's name {root!r} is also a category; name the root otherwise with root=...")
        return Taxonomy.of(dict.fromkeys(names, root))

    @property
    def leaves(self) -> tuple[str, ...]:
        """The concepts that are nobody's ancestor."""
        inner = set(chain.from_iterable(above - {concept} for concept, above in self.ancestors.items()))
        return tuple(concept for concept in self.ancestors if concept not in inner)

    def get_ancestors(self, concept: str) -> frozenset[str]:
        """The concept's ancestors, itself included."""
        if concept not in self.ancestors:
            size = f"{len(self.ancestors)} concepts under {self.root!r}"
            raise InvalidInput(f"{concept!r} is not in the taxonomy; it has {size}")
        return self.ancestors[concept]

    def compute_dissimilarity(self, concept: str, other: str) -> Fraction:
        """The share of the two concepts' ancestors that they do not have in common."""
        first, second = self.get_ancestors(concept), self.get_ancestors(other)
        union = len(first | second)
        return Fraction(union - len(first & second), union)


def copy_taxonomy(taxonomy: object) -> Taxonomy:
    """A new taxonomy made of plain text; refuses what is not exactly a Taxonomy."""
    original = require_exact_class(taxonomy, Taxonomy, "a semantic distance needs a Taxonomy")
    return Taxonomy(original.ancestors, original.root)


def _copy_name(concept: object) -> str:
    return copy_text(concept, "a concept of a taxonomy")


def _copy_names(concepts: object, subject: str) -> tuple[str, ...]:
    if has_type(concepts, str):
        return (_copy_name(concepts),)
    if not isinstance(concepts, Iterable):
        raise InvalidInput(f"{subject} are a name or a list of names, got {type(concepts).__name__}")
    return tuple(_copy_name(concept) for concept in copy_list(concepts, subject))


def _collect_ancestors(concept: str, parents_by_child: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    ancestors, pending = {concept}, list(parents_by_child.get(concept, ()))
    while pending:
        ancestor = pending.pop()
        if ancestor == concept:
            raise InvalidInput(f"the taxonomy goes round in a circle through {concept!r}")
        if ancestor not in ancestors:
            ancestors.add(ancestor)
            pending.extend(parents_by_child.get(ancestor, ()))
    return frozenset(ancestors)
