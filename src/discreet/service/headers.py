"""What every reply says to a browser: take nothing from elsewhere, keep nothing, show this in no frame."""

from __future__ import annotations

from discreet.service.padding import App, Message, Receive, Scope, Send

CONSOLE = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
API = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"
ALWAYS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
STRICT = "max-age=31536000"


def is_encrypted(scope: Scope, tls: bool) -> bool:
    """Whether a reply leaves over TLS: ours, or that of a proxy, which says so; who lies is the only one to notice."""
    return tls or dict(scope.get("headers", ())).get(b"x-forwarded-proto", b"").lower() == b"https"


class Headers:
    """Adds them to every reply that has none of its own."""

    def __init__(self, app: App, tls: bool) -> None:
        self._app, self._tls = app, tls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add them as the reply begins."""
        policy = CONSOLE if scope.get("path", "").startswith("/console") else API
        wanted = ALWAYS | {"content-security-policy": policy, "cache-control": "no-store"}
        if is_encrypted(scope, self._tls):
            wanted = wanted | {"strict-transport-security": STRICT}

        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message.get("headers", ())}
                more = [(n.encode(), v.encode()) for n, v in wanted.items() if n.encode() not in there]
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        await self._app(scope, receive, add)
