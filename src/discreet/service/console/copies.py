"""A question as code that asks it again: with the Python client, or with curl.

It asks for no fresh draw: as long as the snapshot is the same, running it finds the stored answer and pays nothing.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from fastapi import Request

from discreet.service.config import Config

NUMBER_FIELDS = ("epsilon", "delta", "noise_scale")
DECIMAL_PATTERN = re.compile(r"[0-9]+(\.[0-9]+)?(e-?[0-9]+)?")
LATER_FIELDS = ("ranges", "population", "population_size")
"""What the client asks of the answer that it has."""


def get_public_url(config: Config, request: Request) -> str:
    """The address of the service for code that sends a token: as configured, else where the request was received.

    Never the Host header: whoever can set it would be sent the token of the person who runs the code.
    """
    if config.url is not None:
        return config.url
    host, port = request.scope.get("server") or (config.address, config.port)
    scheme, default_port = ("http", 80) if config.tls is None else ("https", 443)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}{'' if port == default_port else f':{port}'}"


def format_python_code(address: str, dataset: str, rehearsal: bool, body: Mapping[str, Any]) -> str:
    """A few lines for the Python client."""
    rehearsal_argument = ", rehearsal=True" if rehearsal else ""
    literals = {
        name: _format_literal(name, value) for name, value in _drop_fresh(body).items() if name not in LATER_FIELDS
    }
    question = literals.pop("question")
    arguments = "".join(
        f"        {argument},\n" for argument in [question, *(f"{name}={value}" for name, value in literals.items())]
    )
    has_fractions = any(literals.get(name, "").startswith("Fraction(") for name in NUMBER_FIELDS)
    fractions = "from fractions import Fraction\n" if has_fractions else ""
    return (
        f"import os\n{fractions}\nfrom discreet import Client\n\n"
        f'with Client({address!r}, os.environ["DISCREET_TOKEN"], {dataset!r}{rehearsal_argument}) as client:\n'
        f"    answer = client.answer(\n{arguments}    )\n"
        "    print(answer.value if answer.single else answer.rows)\n"
        "    print(answer.interval(), answer.guarantee.words())\n"
    )


def format_curl_command(address: str, api: str, request_body: Mapping[str, Any]) -> str:
    """One command of a shell."""
    body = json.dumps(_drop_fresh(request_body), ensure_ascii=False)
    return (
        f"curl --silent --show-error {shlex.quote(f'{address}{api}/answers')} \\\n"
        '  --header "Authorization: Bearer $DISCREET_TOKEN" \\\n'
        "  --header 'Content-Type: application/json' \\\n"
        f"  --data {shlex.quote(body)}\n"
    )


def _drop_fresh(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != "fresh"}


def _format_literal(name: str, value: object) -> str:
    """A value in Python; an exact number as the number it is."""
    if name in NUMBER_FIELDS and isinstance(value, str):
        return value if DECIMAL_PATTERN.fullmatch(value) else f"Fraction({value!r})"
    return repr(value)
