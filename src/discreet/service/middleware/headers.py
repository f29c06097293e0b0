"""Security headers: load nothing from elsewhere, cache nothing, show this in no frame."""

from __future__ import annotations

from discreet.service.middleware.deadline import App, Message, Receive, Scope, Send

CONSOLE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
API_POLICY = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"
COMMON_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
HSTS_VALUE = "max-age=31536000"


def is_encrypted(scope: Scope, tls: bool) -> bool:
    """Whether a reply leaves over TLS: ours, or a proxy's, as its header says; a false header harms only its sender."""
    return tls or dict(scope.get("headers", ())).get(b"x-forwarded-proto", b"").lower() == b"https"


class SecurityHeadersMiddleware:
    """Adds the security headers to every reply, unless it has its own."""

    def __init__(self, app: App, tls: bool) -> None:
        self._app, self._tls = app, tls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add the headers as the reply begins."""
        policy = CONSOLE_POLICY if scope.get("path", "").startswith("/console") else API_POLICY
        security_headers = COMMON_HEADERS | {"content-security-policy": policy, "cache-control": "no-store"}
        if is_encrypted(scope, self._tls):
            security_headers["strict-transport-security"] = HSTS_VALUE

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present_names = {name.lower() for name, _ in message.get("headers", ())}
                additions = [
                    (n.encode(), v.encode()) for n, v in security_headers.items() if n.encode() not in present_names
                ]
                message = {**message, "headers": [*message.get("headers", ()), *additions]}
            await send(message)

        await self._app(scope, receive, send_with_headers)
