"""From the documents of a service to the values that the library has: what `to_json` and its like have written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from discreet.client.problem import UNREADABLE
from discreet.errors import Unavailable
from discreet.guarantee import Guarantee

if TYPE_CHECKING:
    from discreet.assess.sweep import SweepPoint, SweepResult
    from discreet.custodian.previewing import Preview
    from discreet.ledger.charge import Balance, Entry, LedgerVerification
    from discreet.planner.compared import DpComparison
    from discreet.spend import PrivacyCost, SubAccount

JsonObject = Mapping[str, Any]
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class SyntheticEstimate:
    """What a private file would promise and how far off it would be, as it is told of a plan."""

    method: str
    guarantee: Guarantee
    errors: Mapping[str, float]
    column_methods: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """The mean over the columns."""
        return sum(self.errors.values()) / len(self.errors)


def decode_reply(decoder: Callable[[Any], Made], document: object) -> Made:
    """A value from a document; whatever is not as it should be is told as one thing."""
    try:
        return decoder(document)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise Unavailable(f"the service {UNREADABLE}") from None


def decode_guarantee(document: JsonObject) -> Guarantee:
    """One promise."""
    return Guarantee(
        model=document["model"],
        neighbours=document.get("neighbours"),
        epsilon=_parse_fraction(document.get("epsilon")),
        delta=_parse_fraction(document.get("delta")),
        rho=_parse_fraction(document.get("rho")),
        pure_epsilon=_parse_fraction(document.get("also_epsilon")),
        k=document.get("k"),
        t=_parse_fraction(document.get("t")),
        distance=document.get("distance"),
        unit=str(document["unit"]),
        assumptions=tuple(map(str, document["assumptions"])),
    )


def decode_preview(document: JsonObject) -> Preview:
    """What a question would cost and be good for."""
    from discreet.custodian.accuracy import AccuracyForRows
    from discreet.custodian.previewing import Preview
    from discreet.planner.plan import Candidate

    compared = document.get("compared_with_dp")
    candidates = [
        Candidate(
            item["aggregate"], item["mechanism"], decode_guarantee(item["cost"]), item["expected_error"], item["chosen"]
        )
        for item in document["candidates"]
    ]
    return Preview(
        question=document["question"],
        mechanism=document["mechanism"],
        cost=decode_guarantee(document["cost"]),
        expected_error=document["expected_error"],
        candidates=tuple(candidates),
        accuracy=document["accuracy"],
        guarantee=decode_guarantee(document["guarantee"]),
        reason=document["reason"],
        stored=_parse_fraction(document["stored_epsilon"]),
        reuse=document.get("reuse", ""),
        warnings=tuple(document["warnings"]),
        prior_error=document["prior_error"],
        pictured=document["pictured"],
        error_of=document["error_of"],
        prior_use=document.get("prior_use", ""),
        balances=decode_balances(document["budget"]),
        times=document["times"],
        accuracy_by_rows=tuple(
            AccuracyForRows(name=item["name"], rows=item["rows"], within=item["within"])
            for item in document.get("accuracy_by_rows", ())
        ),
        compared_with_dp=None if compared is None else _decode_dp_comparison(compared),
    )


def _decode_dp_comparison(document: JsonObject) -> DpComparison:
    from discreet.planner.compared import DpComparison

    return DpComparison(
        mechanism=document["mechanism"],
        accuracy=document["accuracy"],
        expected_error=document["expected_error"],
        own_error=document["own_error"],
        prefer=document["prefer"],
        words=document["words"],
    )


def decode_balances(documents: Sequence[JsonObject]) -> tuple[Balance, ...]:
    """What is spent and left, of the data set and of analysts."""
    from discreet.ledger.charge import Balance
    from discreet.schema import Budget

    def decode_balance(document: JsonObject) -> Balance:
        spent, cap_document = document["spent"], document["cap"]
        max_epsilon = _parse_fraction(cap_document.get("max_epsilon"))
        cap = Budget(
            epsilon=Fraction(cap_document["epsilon"]), delta=Fraction(cap_document["delta"]), max_epsilon=max_epsilon
        )
        flags = tuple(map(str, document["flags"]))
        exact = _parse_fraction(spent["epsilon"]), Fraction(spent["delta"])
        return Balance(
            document["model"], document["analyst"], *exact, cap, Fraction(document["left"]), flags, document["promise"]
        )

    return tuple(decode_balance(document) for document in documents)


def decode_entries(documents: Sequence[JsonObject]) -> list[Entry]:
    """What was asked."""
    from discreet.ledger.charge import Entry

    def decode_entry(document: JsonObject) -> Entry:
        return Entry(
            entry=document["entry"],
            kind=document["kind"],
            at=document["at"],
            snapshot=document["snapshot"],
            analyst=document["analyst"],
            query=document["query"],
            model=document["model"],
            spend=None if document["spend"] is None else _decode_cost(document["spend"]),
            epsilon=_parse_fraction(document["epsilon"]),
            part=None if document["part"] is None else _decode_account(document["part"]),
        )

    return [decode_entry(document) for document in documents]


def _decode_cost(document: JsonObject) -> PrivacyCost:
    from discreet.spend import PrivacyCost

    epsilon, rho, other, delta = (Fraction(document[name]) for name in ("epsilon", "rho", "other", "delta"))
    return PrivacyCost(epsilon=epsilon, rho=rho, gaussian_rho=other, delta=delta)


def _decode_account(document: JsonObject) -> SubAccount:
    from discreet.spend import SubAccount

    return SubAccount(kind=document["kind"], name=document["name"], max_accounts=document["reach"])


def decode_verification(document: JsonObject) -> LedgerVerification:
    """A ledger that holds."""
    from discreet.ledger.charge import LedgerVerification

    return LedgerVerification(document["entries"], document["head"])


def decode_estimates(documents: Sequence[JsonObject]) -> tuple[SyntheticEstimate, ...]:
    """What private files would be."""
    return tuple(
        SyntheticEstimate(
            document["method"],
            decode_guarantee(document["guarantee"]),
            dict(document["expected_error"]),
            dict(document["made"]),
            tuple(document["warnings"]),
        )
        for document in documents
    )


def decode_sweep(document: JsonObject) -> SweepResult:
    """Methods compared over k."""
    from discreet.assess.sweep import SweepResult

    points = tuple(map(_decode_sweep_point, document["points"]))
    return SweepResult(
        points, _decode_sweep_point(document["recommended"]), document["limit"], tuple(document["left_out"])
    )


def _decode_sweep_point(document: JsonObject) -> SweepPoint:
    from discreet.assess.sweep import SweepPoint

    return SweepPoint(
        method=document["method"],
        k=document["k"],
        loss=document["loss"],
        risk=document["risk"],
        il1s=document["il1s"],
        linkage=document["linkage"],
        score=document["score"],
        lost=document["lost"],
    )


def _parse_fraction(text: str | None) -> Fraction | None:
    return None if text is None else Fraction(text)
