"""What comes with a question: how much may be lost or how near the answer should be, what is known, how to answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from discreet.accuracy import Accuracy
from discreet.distance import Distance, plain_distance
from discreet.errors import InvalidInput
from discreet.exact import between, positive, shown, whole
from discreet.plain import is_a, plain_exact, plain_list, plain_text
from discreet.prior import Prior, plain_prior
from discreet.spend import LEAST_DELTA, LEAST_EPSILON

LEAST, MOST = LEAST_EPSILON, Fraction(10**4)
"""Beyond these nothing useful is asked, and numbers outgrow what can be told: refused before anything is spent."""
MOST_ROWS = 10**12
Given = str | Prior | Mapping[Hashable, object] | None


@dataclass(frozen=True, slots=True)
class Asked:
    """Exactly one of epsilon, noise_scale and accuracy says how much noise there is.

    `rho` stands in for epsilon where a stored answer was drawn by it; `most` is the largest epsilon an accuracy may
    cost; `rows` about how many rows the analyst expects to be selected, for planning alone.
    """

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    prior: str | Prior | None = None
    model: str | None = None
    noise_scale: Fraction | None = None
    accuracy: Accuracy | None = None
    distance: Distance | str | None = None
    interval: bool = False
    rows: int | None = None
    tail: bool | None = None
    """Whether a tenth of the prior's weight is given to a heavy tail; None where the analyst leaves it to us."""
    rho: Fraction | None = None
    most: Fraction | None = None
    near: Accuracy | None = None
    """The accuracy that the epsilon was found for: the mechanism must have it too."""
    like: tuple[str, ...] = ()
    """The mechanisms, aggregate by aggregate, that a stored answer was drawn by: no others are weighed."""

    def __post_init__(self) -> None:
        """Copy what callers made as plain values; one way to say how much noise, and numbers within reason."""
        for name, copied in COPIES.items():
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, copied(value))
        ways = (self.epsilon, self.noise_scale, self.accuracy, self.rho)
        if sum(way is not None for way in ways) != 1:
            raise InvalidInput("say how much noise there may be in one way: by epsilon, by noise_scale or by accuracy")
        if self.epsilon is not None:
            check_epsilon(self.epsilon)
        if self.delta is not None and self.delta < LEAST_DELTA:
            raise InvalidInput("delta must be at least 1e-30")
        if not (self.tail is None or type(self.tail) is bool):
            raise InvalidInput(f"tail is True, False or left out, got {type(self.tail).__name__}")
        if self.tail is not None and self.prior is None:
            raise InvalidInput("tail says how your prior is used; give the prior too, or leave out tail")

    @property
    def asked_model(self) -> str:
        """The model asked for: by its name, or by a delta."""
        return self.model or ("dp" if self.delta is None and self.rho is None else "approx-dp")


def _prior(given: object) -> str | Prior:
    return plain_text(given, "a prior") if is_a(given, str) else plain_prior(given, "a prior must be text or a Prior")


def _distance(given: object) -> str | Distance:
    return plain_text(given, "a distance") if is_a(given, str) else plain_distance(given)


def _names(given: object) -> tuple[str, ...]:
    return tuple(plain_text(name, "a mechanism") for name in plain_list(given, "mechanisms"))


COPIES: Mapping[str, Callable[[object], object]] = {
    **{name: partial(plain_exact, what=name) for name in ("epsilon", "delta", "noise_scale", "rho", "most")},
    **dict.fromkeys(("accuracy", "near"), Accuracy.parse),
    "prior": _prior,
    "distance": _distance,
    "model": partial(plain_text, what="a model"),
    "rows": partial(whole, name="the number of rows expected"),
    "interval": bool,
    "like": _names,
}
"""How each part of what was asked is copied, so that it is made of plain values alone."""


def asked(
    epsilon: object = None,
    delta: object = None,
    prior: Given = None,
    model: str | None = None,
    *,
    noise_scale: object = None,
    accuracy: object = None,
    distance: Distance | str | None = None,
    interval: bool = False,
    rows: object = None,
    tail: bool | None = None,
    most: Fraction | None = None,
) -> Asked:
    """From plain numbers and texts; numbers by their decimal text."""
    return Asked(
        epsilon=None if epsilon is None else positive(epsilon, "epsilon"),
        delta=None if delta is None else between(delta, 0, 1, "delta"),
        prior=Prior.weights(prior) if isinstance(prior, Mapping) else prior,
        model=model,
        noise_scale=None if noise_scale is None else positive(noise_scale, "the noise scale"),
        accuracy=None if accuracy is None else Accuracy.parse(accuracy),
        distance=distance,
        interval=bool(interval),
        rows=None if rows is None else min(whole(rows, "the number of rows expected"), MOST_ROWS),
        tail=tail,
        most=most,
    )


def check_epsilon(epsilon: Fraction) -> None:
    """Refuse one beyond what is useful."""
    if not LEAST <= epsilon <= MOST:
        raise InvalidInput(f"epsilon must be between 1e-9 and 10000, got {shown(epsilon)}")
