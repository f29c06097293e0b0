"""The table all are asked about, from one seed, as arrays; its schema under either relation; the exact answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.error.jobs import (
    GREATEST_AGE,
    GREATEST_INCOME,
    LEAST_AGE,
    OLD,
    QUARTILES,
    REGIONS,
    RICH,
    ROWS,
    STEP,
)

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class People:
    """Columns of equal length; regions by their place among the categories."""

    age: NDArray[np.int64]
    income: Numbers
    region: NDArray[np.int64]

    @staticmethod
    def generate() -> People:
        """Incomes rise with age, and regions differ in size."""
        generator = np.random.Generator(np.random.PCG64(1))
        age = np.clip(LEAST_AGE + generator.gamma(3.2, 9.5, ROWS), LEAST_AGE, GREATEST_AGE).astype(np.int64)
        income = np.minimum(np.round(generator.lognormal(9.8 + age / 100, 0.8) / STEP) * STEP, GREATEST_INCOME)
        weights = np.arange(len(REGIONS), 0, -1)
        return People(age, income, generator.choice(len(REGIONS), ROWS, p=weights / weights.sum()).astype(np.int64))

    @staticmethod
    def read(file: str | Path) -> People:
        with np.load(file) as columns:
            return People(columns["age"], columns["income"], columns["region"])

    def write(self, file: Path) -> None:
        np.savez(file, age=self.age, income=self.income, region=self.region)

    @property
    def is_rich(self) -> NDArray[np.bool_]:
        return self.income > RICH

    @property
    def is_old(self) -> NDArray[np.bool_]:
        return self.age > OLD

    def by_region(self, values: NDArray[np.generic], is_selected: NDArray[np.bool_]) -> list[NDArray[np.generic]]:
        """The chosen values, region by region."""
        return [values[is_selected & (self.region == region)] for region in range(len(REGIONS))]

    def exact(self) -> Mapping[str, Numbers]:
        """The true numbers of every job, by its name."""
        ages, incomes = self.age[self.is_rich], self.income[self.is_old]
        old = {"sum": incomes.sum(), "mean": incomes.mean(), "median of income": np.median(incomes)}
        answers = {name: np.array([value]) for name, value in ({"count": self.is_rich.sum()} | old).items()}
        answers |= {f"{name}, n public": value for name, value in answers.items()}
        answers["count by region"] = np.array([len(part) for part in self.by_region(self.income, self.is_rich)])
        answers["mean by region"] = np.array([part.mean() for part in self.by_region(self.income, self.is_old)])
        answers["quartiles of income"] = np.quantile(incomes, QUARTILES)
        answers |= {"least age": ages.min(), "greatest age": ages.max(), "median of age": np.median(ages)}
        answers |= {"least income": incomes.min(), "greatest income": incomes.max(), "variance": incomes.var(ddof=1)}
        answers |= {"mean of all": self.income.mean(), "median of all incomes": np.median(self.income)}
        answers["variance of all"] = self.income.var(ddof=1)
        return {name: np.atleast_1d(value).astype(float) for name, value in answers.items()}
