"""A question as code that asks it again: with the Python client, or with curl.

It asks for no fresh draw: as long as the snapshot is the same, running it finds the stored answer and pays nothing.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from discreet.service.config import Config

NUMBERS = ("epsilon", "delta", "noise_scale")
DECIMAL = re.compile(r"[0-9]+(\.[0-9]+)?(e-?[0-9]+)?")
LATER = ("ranges", "population", "population_size")
"""What the client asks of the answer that it has."""


def address_of(config: Config, request: Request) -> str:
    """The address of the service for code that sends a token: as configured, else where the request was received.

    Never the Host header: whoever can set it would be sent the token of the person who runs the code.
    """
    if config.url is not None:
        return config.url
    host, port = request.scope.get("server") or (config.address, config.port)
    scheme, usual = ("http", 80) if config.tls is None else ("https", 443)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}{'' if port == usual else f':{port}'}"


def python_code(address: str, dataset: str, rehearsal: bool, asked: Mapping[str, Any]) -> str:
    """A few lines for the Python client."""
    more = ", rehearsal=True" if rehearsal else ""
    said = {name: _literal(name, told) for name, told in _again(asked).items() if name not in LATER}
    question = said.pop("question")
    arguments = "".join(f"        {one},\n" for one in [question, *(f"{name}={told}" for name, told in said.items())])
    broken = any(said.get(name, "").startswith("Fraction(") for name in NUMBERS)
    fractions = "from fractions import Fraction\n" if broken else ""
    return (
        f"import os\n{fractions}\nfrom discreet import Client\n\n"
        f'with Client({address!r}, os.environ["DISCREET_TOKEN"], {dataset!r}{more}) as client:\n'
        f"    answer = client.answer(\n{arguments}    )\n"
        "    print(answer.value if answer.single else answer.rows)\n"
        "    print(answer.interval(), answer.guarantee.words())\n"
    )


def curl_code(address: str, api: str, asked: Mapping[str, Any]) -> str:
    """One command of a shell."""
    body = json.dumps(_again(asked), ensure_ascii=False)
    return (
        f"curl --silent --show-error {shlex.quote(f'{address}{api}/answers')} \\\n"
        '  --header "Authorization: Bearer $DISCREET_TOKEN" \\\n'
        "  --header 'Content-Type: application/json' \\\n"
        f"  --data {shlex.quote(body)}\n"
    )


def _again(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {name: told for name, told in asked.items() if name != "fresh"}


def _literal(name: str, told: object) -> str:
    """A value in Python; an exact number as the number it is."""
    if name in NUMBERS and isinstance(told, str):
        return told if DECIMAL.fullmatch(told) else f"Fraction({told!r})"
    return repr(told)
