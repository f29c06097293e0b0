"""Whether a release is what its label says, as far as its files show: the verifier that trusts no method.

A claim that the files contradict raises `ClaimFailed`, one that they cannot show `Unsupported`, which says what to add.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from discreet.assess.anonymity import measure_anonymity
from discreet.assess.close import check_closeness_claim
from discreet.assess.coding import check_column_names
from discreet.assess.evidence import CheckedClaim, Evidence, format_claim, require_k
from discreet.assess.nearest import bound_linkage
from discreet.assess.swapped import check_probabilistic_claim
from discreet.assess.variety import format_ratio
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
) -> CheckedClaim:
    """What was measured of the claim; raises where it does not hold.

    `original` has the rows that the release was made of, in the release's order; `groups` the labels of the groups that
    hide rows, under "records" or the name of a confidential column; `second` is Anatomy's other table. Released columns
    that are neither quasi-identifiers nor confidential nor `kept` are named in what comes back.
    """
    files = Evidence(
        read_table(released),
        check_column_names(quasi, "quasi-identifiers") if quasi else (),
        check_column_names(confidential, "confidential columns") if confidential else (),
        None if original is None else read_table(original),
        groups or {},
        None if second is None else read_table(second),
        check_column_names(kept, "kept columns") if kept else (),
    )
    return _add_other_columns(_check_by_model(guarantee, files), files)


def _check_by_model(guarantee: Guarantee, files: Evidence) -> CheckedClaim:
    if guarantee.model == "k-anonymity":
        return _check_k_anonymity(guarantee, files)
    if guarantee.model == "probabilistic-k-anonymity":
        return check_probabilistic_claim(guarantee, files)
    if guarantee.model == "t-closeness":
        return check_closeness_claim(guarantee, files)
    raise Unsupported(
        f"no file shows whether {guarantee.model} holds; only k-anonymity, probabilistic k-anonymity and t-closeness "
        "can be measured on one"
    )


def _add_other_columns(checked: CheckedClaim, files: Evidence) -> CheckedClaim:
    """With the columns that no claim is about: who knows them may tell people apart by them."""
    others = [name for name in files.other_columns if name not in files.kept_columns]
    listed_names = ", ".join(repr(name[:40]) for name in others)
    words = [f"Beside the columns that the claim is about the file holds: {listed_names}."] if others else []
    measured = {**checked.measured, "other_columns": others}
    return replace(checked, measured=measured, words=(*checked.words, *words))


def _check_k_anonymity(claim: Guarantee, files: Evidence) -> CheckedClaim:
    """The least class has k rows or more: then no linkage, by distance or otherwise, is right more often than 1/k."""
    anonymity = measure_anonymity(files.released, files.quasi, files.confidential)
    require_k(claim, anonymity.k, "class of equal quasi-identifiers")
    measured: dict[str, object] = {"anonymity": anonymity.to_json(), "linkage_at_most": format_ratio(anonymity.linkage)}
    words = [
        f"{format_claim(claim)} holds: the smallest class of equal quasi-identifiers has {anonymity.k} rows, "
        "and even who always finds the right class picks the right row for "
        f"{format_percent_at_most(anonymity.linkage)} of the people."
    ]
    linkage = None if files.original is None else bound_linkage(files.original, files.released, files.quasi)
    if linkage is not None:
        measured["linkage_by_distance"] = format_ratio(linkage)
        words.append(
            "The nearest released rows lead to the right one for at most "
            f"{format_percent_at_most(linkage)} of the people."
        )
    return CheckedClaim(claim, True, measured, tuple(words))
