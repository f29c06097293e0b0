"""Table 7.2 of the thesis: nine made-up patients."""

from __future__ import annotations

import numpy as np

ROWS = """asian 09/27/64 female hypertension
asian 05/08/61 female obesity
asian 04/18/64 male chest-pain
black 03/13/63 male hypertension
black 03/18/63 male shortness-of-breath
black 09/07/64 female obesity
white 05/14/61 male chest-pain
white 05/08/63 male obesity
white 09/15/61 female shortness-of-breath"""
QUASI = ["ethnicity", "birth", "sex"]
MEDICAL = dict(
    zip(
        (*QUASI, "problem"),
        np.array([line.split() for line in ROWS.splitlines()], dtype=object).T,
        strict=True,
    )
)
YEARS = {date: date[-2:] for date in MEDICAL["birth"]}
HIERARCHIES = {
    "birth": [YEARS, dict.fromkeys(YEARS.values(), "[61,64]")],
    "sex": [{"male": "-", "female": "-"}],
}
"""What Table 7.3 generalises by."""
