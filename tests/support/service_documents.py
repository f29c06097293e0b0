"""Documents as a service sends them, and a client of a service that is scripted."""

from __future__ import annotations

from typing import Any

from discreet import Client
from support.scripted_service import ScriptedService

TOKEN = "dsc_" + "s3cr3t" * 7
QUESTION = "SELECT COUNT(*) FROM registry WHERE smoker"
GUARANTEE = {
    "model": "dp",
    "epsilon": "1/10",
    "neighbours": "replace-one",
    "unit": "person_id",
    "assumptions": ["the schema is true"],
    "words": "Differential privacy with epsilon 0.1 when one person_id is replaced by any other.",
}
ANSWER: dict[str, Any] = {
    "id": "a1",
    "question": QUESTION,
    "columns": ["count"],
    "numbers": ["count"],
    "dates": [],
    "rows": [{"count": 1234}],
    "value": 1234,
    "headline": 1234,
    "intervals_95": [{"count": [1200, 1268]}],
    "posteriors": [{"count": {"mean": 1230.5, "median": 1230.0, "interval_95": [1199.0, 1262.0]}}],
    "reconciled": {
        "rows": [{"count": 1234}],
        "intervals_95": [{"count": [1200, 1268]}],
        "because": ["it is a count"],
        "use_for_sums": "reconciled",
        "advice": "",
    },
    "shaped_by_prior": False,
    "prior_tail": None,
    "prior_use": "",
    "missed_accuracy": "This answer is less accurate than the ±20 you requested: it is within 34.",
    "warning": None,
    "meaning": "the count is about 1234",
    "mechanism": "discrete Laplace",
    "accuracy": "within 34",
    "stored": False,
    "entry": 7,
    "spent_so_far": {"dp": "1/10", "approx-dp": None},
    "guarantee": GUARANTEE,
    "cost": GUARANTEE,
    "picture": True,
}
PREVIEW = {
    "question": QUESTION,
    "mechanism": "discrete Laplace",
    "expected_error": 14.1,
    "prior_error": None,
    "reason": "",
    "accuracy": "within 34",
    "candidates": [],
    "guarantee": GUARANTEE,
    "cost": GUARANTEE | {"epsilon": "0"},
    "times": 3,
    "warnings": [],
    "stored_epsilon": "1/10",
    "pictured": True,
    "budget": [],
}
ABOUT = {"name": "registry", "schema": {"name": "registry", "columns": {}}, "deadline": 0.01, "jobs": True}


def build_client(service: ScriptedService, **options: Any) -> Client:
    """A client that does not wait long between two requests."""
    return Client(service.address, TOKEN, "registry", **{"pause": 0.001} | options)
