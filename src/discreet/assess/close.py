"""The claim of t-closeness, checked on files: by Anatomy's tables, by groups, or by classes of equal quasi-identifiers.

Groups that the file hides protect only where their values changed places. The original shows whether they did: as many
rows carry the value nearest to their own as a uniform permutation brings there. A file alone never refutes the claim,
since the groups it hides need not be its classes.
"""

from __future__ import annotations

import math

from discreet.assess.anonymity import Anonymity, measure_anonymity, measure_groups
from discreet.assess.evidence import PROVISO, RECORDS, Checked, Evidence, named, require_no_copy
from discreet.assess.nearest import nearest_values
from discreet.assess.two_tables import measure_apart
from discreet.assess.uniform import require_uniform
from discreet.assess.variety import Ratio, told
from discreet.errors import ClaimFailed, InvalidInput, Unsupported
from discreet.formatting import format_cost
from discreet.guarantee import Guarantee
from discreet.microdata.table import Places, Table


def closeness_claim(claim: Guarantee, files: Evidence) -> Checked:
    """The measured t is at most the claimed one, exactly."""
    if not files.confidential:
        raise InvalidInput("t-closeness is of confidential columns; name them")
    if files.second is not None:
        return _checked(claim, measure_apart(claim, files, files.second), "group")
    if files.groups:
        return _hidden(claim, files)
    found = measure_anonymity(files.released, files.quasi, files.confidential)
    figure = _measured(claim, found)
    if figure > (claim.t or 0):
        raise Unsupported(
            f"the file alone does not show {named(claim)}: {_figure(figure, 'class')} was measured over every class of "
            "equal quasi-identifiers, and its groups may be others that it hides; give the groups or Anatomy's second "
            "table"
        )
    return _checked(claim, found, "class")


def _hidden(claim: Guarantee, files: Evidence) -> Checked:
    groups = files.labels(files.confidential[0] if len(files.confidential) == 1 else RECORDS)
    found = _checked(claim, measure_groups(groups, files.released, files.confidential), "group")
    if files.original is None:
        words = (*found.words, "Without the original nothing shows that values changed places inside the groups.")
        return Checked(claim, False, found.measured, words)
    require_no_copy(claim, files, files.original, files.beside)
    hits = {name: _require_moved(claim, files, files.original, name, groups) for name in files.confidential}
    near = "As many values are near those of their own rows as changing places brings there."
    words = (*found.words, near, PROVISO)
    return Checked(claim, True, {**found.measured, "hits": hits}, words)


def _require_moved(claim: Guarantee, files: Evidence, original: Table, name: str, groups: Places) -> dict[str, object]:
    return require_uniform(claim, name, *nearest_values(original[name], files.released[name]), groups).to_json()


def _checked(claim: Guarantee, found: Anonymity, what: str) -> Checked:
    figure = _measured(claim, found)
    if figure > (claim.t or 0):
        raise ClaimFailed(
            f"the release claims {named(claim)}, and {_figure(figure, what)} was measured over every {what}"
        )
    words = (
        f"{named(claim)} holds: {format_cost(figure)} was measured over every {what}, "
        f"the smallest of which has {found.k} rows."
    )
    return Checked(claim, True, {"anonymity": found.to_json(), "t": told(figure)}, (words,))


def _figure(figure: Ratio, what: str) -> str:
    return f"infinite, since a {what} lacks a value," if figure == math.inf else format_cost(figure)


def _measured(claim: Guarantee, found: Anonymity) -> Ratio:
    """The measured t under the claim's distance; several columns together, which is never the smaller for ratios."""
    if claim.distance == "ratio":
        worst = found.together.t_ratio if found.together else found.t_ratio
    elif claim.distance in {"emd", "earth mover's"}:
        worst = found.t_emd
    else:
        raise Unsupported(f"t-closeness is measured under ratio or emd, not under {str(claim.distance)[:40]!r}")
    return math.inf if worst is None else worst
