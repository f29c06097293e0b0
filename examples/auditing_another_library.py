"""Put a promise to the test, whoever made it: hand-made noise, and other libraries where they are installed.

Run it: `python examples/auditing_another_library.py`. Each mechanism adds noise to a count and claims epsilon 1; the
two counts, 0 and 1, differ by one person. An audit finds faults; that it finds none is no proof that there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np

from discreet import audit_mechanism

EPSILON = 1
DRAWS = 100_000
CONFIDENCE = 0.99999
ONE_BY_ONE = 20_000  # for a library that draws one number a call
CHANCE = np.random.default_rng()
Mechanism = Callable[[int, int], object]


def add_float_noise(count: int, draws: int) -> object:
    """The right scale, drawn and added in floating point: the last digits of the sum tell the count."""
    return count + CHANCE.laplace(scale=1 / EPSILON, size=draws)


def add_misscaled_noise(count: int, draws: int) -> object:
    """Rounded to whole numbers, so that no digit tells; but of half the scale that epsilon 1 needs."""
    return np.round(count + CHANCE.laplace(scale=0.5 / EPSILON, size=draws))


def add_rounded_noise(count: int, draws: int) -> object:
    """Rounded, and of the right scale."""
    return np.round(count + CHANCE.laplace(scale=1 / EPSILON, size=draws))


def build_opendp_mechanism() -> Mechanism:
    """OpenDP's Laplace noise on whole numbers."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    noise = dp.m.make_laplace(*space, scale=1 / EPSILON)
    return lambda count, draws: np.array(noise([count] * draws))


def build_diffprivlib_mechanism() -> Mechanism:
    """diffprivlib's geometric noise on whole numbers."""
    from diffprivlib.mechanisms import Geometric

    noise = Geometric(epsilon=EPSILON, sensitivity=1)
    return lambda count, draws: np.array([noise.randomise(count) for _ in range(draws)])


def audit(name: str, mechanism: Mechanism, draws: int = DRAWS) -> None:
    """Say what an audit finds."""
    audit_result = audit_mechanism(mechanism, 0, 1, EPSILON, draws=draws, confidence=CONFIDENCE)
    print(f"{name}\n    {audit_result.sentence()}")


def main() -> None:
    """By hand, then by others."""
    audit("by hand: floating point, the right scale", add_float_noise)
    audit("by hand: whole numbers, half the scale", add_misscaled_noise)
    audit("by hand: whole numbers, the right scale", add_rounded_noise)
    for library, make, draws in (
        ("opendp", build_opendp_mechanism, DRAWS),
        ("diffprivlib", build_diffprivlib_mechanism, ONE_BY_ONE),
    ):
        if find_spec(library) is None:
            print(f"{library}\n    It is not installed here, so it was not audited: pip install {library}")
        else:
            audit(f"{library} {version(library)}", make(), draws)


if __name__ == "__main__":
    main()
