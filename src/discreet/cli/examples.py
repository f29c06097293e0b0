"""An example of every command, for its help: of the made-up registry that `python -m discreet.sample work` writes."""

from __future__ import annotations

EXAMPLE_HINT = "work/ is made by: python -m discreet.sample work"
EXAMPLE_LEDGER = "work/registry.discreet/ledger.db"
EXAMPLES = {
    "init": "discreet init work/registry.csv --output draft.yaml",
    "check": "discreet check work/registry.yaml",
    "ask": 'discreet ask work/registry.yaml "SELECT AVG(age) FROM registry WHERE smoker" --epsilon 0.1',
    "preview": 'discreet preview work/registry.yaml "SELECT MEDIAN(income) FROM registry" --epsilon 0.1',
    "budget": "discreet budget work/registry.yaml",
    "history": "discreet history work/registry.yaml --limit 5",
    "publish": "discreet publish work/registry.yaml --method mdav --k 10 --out protected.csv",
    "verify": "discreet verify protected.csv",
    "assess": "discreet assess work/registry.yaml protected.csv",
    "serve": "discreet serve --port 8080",
    "audit": "discreet audit laplace --epsilon 1 --draws 100000",
    "ledger verify": f"discreet ledger verify {EXAMPLE_LEDGER}",
    "ledger backup": f"discreet ledger backup {EXAMPLE_LEDGER} ledger.bak",
    "ledger restore": "discreet ledger restore ledger.bak restored.db --forgotten 0.5",
    "ledger upgrade": f"discreet ledger upgrade {EXAMPLE_LEDGER}",
    "token create": "discreet token create --config service.yaml --analyst ann --dataset registry",
    "token list": "discreet token list --config service.yaml",
    "token revoke": "discreet token revoke 3f9a --config service.yaml",
    "token grant": "discreet token grant ann registry --config service.yaml",
    "token ungrant": "discreet token ungrant ann registry --config service.yaml",
}


def format_example(command: str) -> str:
    """What stands below the options of a command, by the words after `discreet`."""
    command_line = EXAMPLES[command]
    hint = f"  ({EXAMPLE_HINT})" if "work/" in command_line else ""
    return f"\b\nFor example:\n  {command_line}\n{hint}"
