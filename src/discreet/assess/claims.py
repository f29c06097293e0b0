"""Whether a release is what its label says, as far as its files show: the verifier that trusts no method.

A claim that the files contradict raises `ClaimFailed`, one that they cannot show `Unsupported`, which says what to add.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from discreet.assess.anonymity import measure_anonymity
from discreet.assess.close import closeness_claim
from discreet.assess.coding import names_of
from discreet.assess.evidence import Checked, Evidence, named, require_k
from discreet.assess.nearest import linkage_at_most
from discreet.assess.swapped import probabilistic_claim
from discreet.assess.variety import told
from discreet.errors import Unsupported
from discreet.formatting import format_percent_at_most
from discreet.guarantee import Guarantee
from discreet.microdata.reading import read_table


def check_claim(
    guarantee: Guarantee,
    released: object,
    quasi: Sequence[str] = (),
    confidential: Sequence[str] = (),
    *,
    original: object | None = None,
    groups: Mapping[str, object] | None = None,
    second: object | None = None,
    kept: Sequence[str] = (),
) -> Checked:
    """What was measured of the claim; raises where it does not hold.

    `original` has the rows that the release was made of, in the release's order; `groups` the labels of the groups that
    hide rows, under "records" or the name of a confidential column; `second` is Anatomy's other table. Released columns
    that are neither quasi-identifiers nor confidential nor `kept` are named in what comes back.
    """
    files = Evidence(
        read_table(released),
        names_of(quasi, "quasi-identifiers") if quasi else (),
        names_of(confidential, "confidential columns") if confidential else (),
        None if original is None else read_table(original),
        groups or {},
        None if second is None else read_table(second),
        names_of(kept, "kept columns") if kept else (),
    )
    return _with_others(_checked(guarantee, files), files)


def _checked(guarantee: Guarantee, files: Evidence) -> Checked:
    if guarantee.model == "k-anonymity":
        return _k_anonymity(guarantee, files)
    if guarantee.model == "probabilistic-k-anonymity":
        return probabilistic_claim(guarantee, files)
    if guarantee.model == "t-closeness":
        return closeness_claim(guarantee, files)
    raise Unsupported(
        f"no file shows whether {guarantee.model} holds; only k-anonymity, probabilistic k-anonymity and t-closeness "
        "can be measured on one"
    )


def _with_others(checked: Checked, files: Evidence) -> Checked:
    """With the columns that no claim is about: who knows them may tell people apart by them."""
    others = [name for name in files.beside if name not in files.kept]
    listed = ", ".join(repr(name[:40]) for name in others)
    words = [f"Beside the columns that the claim is about the file holds: {listed}."] if others else []
    measured = {**checked.measured, "other_columns": others}
    return replace(checked, measured=measured, words=(*checked.words, *words))


def _k_anonymity(claim: Guarantee, files: Evidence) -> Checked:
    """The least class has k rows or more: then no linkage, by distance or otherwise, is right more often than 1/k."""
    found = measure_anonymity(files.released, files.quasi, files.confidential)
    require_k(claim, found.k, "class of equal quasi-identifiers")
    measured: dict[str, object] = {"anonymity": found.to_json(), "linkage_at_most": told(found.linkage)}
    words = [
        f"{named(claim)} holds: the smallest class of equal quasi-identifiers has {found.k} rows, "
        "and even who always finds the right class picks the right row for "
        f"{format_percent_at_most(found.linkage)} of the people."
    ]
    linkage = None if files.original is None else linkage_at_most(files.original, files.released, files.quasi)
    if linkage is not None:
        measured["linkage_by_distance"] = told(linkage)
        words.append(
            "The nearest released rows lead to the right one for at most "
            f"{format_percent_at_most(linkage)} of the people."
        )
    return Checked(claim, True, measured, tuple(words))
