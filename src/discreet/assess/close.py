"""The claim of t-closeness, checked on files: by Anatomy's tables, by groups, or by classes of equal quasi-identifiers.

Groups that the file hides protect only where their values changed places. The original shows whether they did: as many
rows carry the value nearest to their own as a uniform permutation brings there. A file alone never refutes the claim,
since the groups it hides need not be its classes.
"""

from __future__ import annotations

import math

from discreet.assess.anonymity import Anonymity, measure_anonymity, measure_groups
from discreet.assess.evidence import PROVISO, RECORDS, CheckedClaim, Evidence, format_claim, require_no_copy
from discreet.assess.nearest import find_nearest_values
from discreet.assess.two_tables import measure_separate_tables
from discreet.assess.uniform import require_uniform
from discreet.assess.variety import Ratio, format_ratio
from discreet.errors import ClaimFailed, InvalidInput, Unsupported
from discreet.formatting import format_cost
from discreet.guarantee import Guarantee
from discreet.microdata.table import Integers, Table


def check_closeness_claim(claim: Guarantee, files: Evidence) -> CheckedClaim:
    """The measured t is at most the claimed one, exactly."""
    if not files.confidential:
        raise InvalidInput("t-closeness is of confidential columns; name them")
    if files.second is not None:
        return _check_measured_t(claim, measure_separate_tables(claim, files, files.second), "group")
    if files.groups:
        return _check_hidden_groups(claim, files)
    anonymity = measure_anonymity(files.released, files.quasi, files.confidential)
    figure = _get_measured_t(claim, anonymity)
    if figure > (claim.t or 0):
        raise Unsupported(
            f"the file alone does not show {format_claim(claim)}: {_format_figure(figure, 'class')} was "
            "measured over every class of "
            "equal quasi-identifiers, and its groups may be others that it hides; give the groups or Anatomy's second "
            "table"
        )
    return _check_measured_t(claim, anonymity, "class")


def _check_hidden_groups(claim: Guarantee, files: Evidence) -> CheckedClaim:
    groups = files.get_labels(files.confidential[0] if len(files.confidential) == 1 else RECORDS)
    checked_claim = _check_measured_t(claim, measure_groups(groups, files.released, files.confidential), "group")
    if files.original is None:
        words = (
            *checked_claim.words,
            "Without the original nothing shows that values changed places inside the groups.",
        )
        return CheckedClaim(claim, False, checked_claim.measured, words)
    require_no_copy(claim, files, files.original, files.other_columns)
    hits = {name: _require_moved(claim, files, files.original, name, groups) for name in files.confidential}
    sentence = "As many values are near those of their own rows as changing places brings there."
    words = (*checked_claim.words, sentence, PROVISO)
    return CheckedClaim(claim, True, {**checked_claim.measured, "hits": hits}, words)


def _require_moved(
    claim: Guarantee, files: Evidence, original: Table, name: str, groups: Integers
) -> dict[str, object]:
    return require_uniform(claim, name, *find_nearest_values(original[name], files.released[name]), groups).to_json()


def _check_measured_t(claim: Guarantee, anonymity: Anonymity, what: str) -> CheckedClaim:
    figure = _get_measured_t(claim, anonymity)
    if figure > (claim.t or 0):
        raise ClaimFailed(
            f"the release claims {format_claim(claim)}, and {_format_figure(figure, what)} "
            f"was measured over every {what}"
        )
    words = (
        f"{format_claim(claim)} holds: {format_cost(figure)} was measured over every {what}, "
        f"the smallest of which has {anonymity.k} rows."
    )
    return CheckedClaim(claim, True, {"anonymity": anonymity.to_json(), "t": format_ratio(figure)}, (words,))


def _format_figure(figure: Ratio, what: str) -> str:
    return f"infinite, since a {what} lacks a value," if figure == math.inf else format_cost(figure)


def _get_measured_t(claim: Guarantee, anonymity: Anonymity) -> Ratio:
    """The measured t under the claim's distance; several columns together, which is never the smaller for ratios."""
    if claim.distance == "ratio":
        worst = anonymity.together.t_ratio if anonymity.together else anonymity.t_ratio
    elif claim.distance in {"emd", "earth mover's"}:
        worst = anonymity.t_emd
    else:
        raise Unsupported(f"t-closeness is measured under ratio or emd, not under {str(claim.distance)[:40]!r}")
    return math.inf if worst is None else worst
