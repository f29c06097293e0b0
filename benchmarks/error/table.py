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
    def made() -> People:
        """Incomes rise with age, and regions differ in size."""
        draw = np.random.Generator(np.random.PCG64(1))
        age = np.clip(LEAST_AGE + draw.gamma(3.2, 9.5, ROWS), LEAST_AGE, GREATEST_AGE).astype(np.int64)
        income = np.minimum(np.round(draw.lognormal(9.8 + age / 100, 0.8) / STEP) * STEP, GREATEST_INCOME)
        weights = np.arange(len(REGIONS), 0, -1)
        return People(age, income, draw.choice(len(REGIONS), ROWS, p=weights / weights.sum()).astype(np.int64))

    @staticmethod
    def read(file: str | Path) -> People:
        with np.load(file) as columns:
            return People(columns["age"], columns["income"], columns["region"])

    def write(self, file: Path) -> None:
        np.savez(file, age=self.age, income=self.income, region=self.region)

    @property
    def rich(self) -> NDArray[np.bool_]:
        return self.income > RICH

    @property
    def old(self) -> NDArray[np.bool_]:
        return self.age > OLD

    def by_region(self, values: NDArray[np.generic], chosen: NDArray[np.bool_]) -> list[NDArray[np.generic]]:
        """The chosen values, region by region."""
        return [values[chosen & (self.region == region)] for region in range(len(REGIONS))]

    def exact(self) -> Mapping[str, Numbers]:
        """The true numbers of every job, by its name."""
        ages, incomes = self.age[self.rich], self.income[self.old]
        old = {"sum": incomes.sum(), "mean": incomes.mean(), "median of income": np.median(incomes)}
        told = {name: np.array([value]) for name, value in ({"count": self.rich.sum()} | old).items()}
        told |= {f"{name}, n public": value for name, value in told.items()}
        told["count by region"] = np.array([len(part) for part in self.by_region(self.income, self.rich)])
        told["mean by region"] = np.array([part.mean() for part in self.by_region(self.income, self.old)])
        told["quartiles of income"] = np.quantile(incomes, QUARTILES)
        told |= {"least age": ages.min(), "greatest age": ages.max(), "median of age": np.median(ages)}
        told |= {"least income": incomes.min(), "greatest income": incomes.max(), "variance": incomes.var(ddof=1)}
        told |= {"mean of all": self.income.mean(), "median of all incomes": np.median(self.income)}
        told["variance of all"] = self.income.var(ddof=1)
        return {name: np.atleast_1d(value).astype(float) for name, value in told.items()}
