"""A certificate for 127.0.0.1 that vouches for itself, made here: an RSA key and X.509 by hand, for tests alone."""

from __future__ import annotations

import base64
import hashlib
import math
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

BITS = 2048
SMALL = math.prod(n for n in range(3, 2000, 2) if all(n % d for d in range(3, math.isqrt(n) + 1, 2)))
SHA256_RSA, RSA = bytes.fromhex("2a864886f70d01010b"), bytes.fromhex("2a864886f70d010101")
SHA256_INFO = bytes.fromhex("3031300d060960864801650304020105000420")
COMMON_NAME, SAN, BASIC, USAGE, KEY_ID = (
    bytes.fromhex(one) for one in ("550403", "551d11", "551d13", "551d0f", "551d0e")
)


@dataclass(frozen=True)
class Certificate:
    """Files in PEM; the certificate is its own authority."""

    certificate: Path
    key: Path


def write_certificate(folder: Path) -> Certificate:
    """A new key and a certificate that is valid today."""
    p, q = _prime(), _prime()
    n, e = p * q, 65537
    d = pow(e, -1, (p - 1) * (q - 1))
    private = _seq(*map(_int, (0, n, e, d, p, q, d % (p - 1), d % (q - 1), pow(q, -1, p))))
    public = _seq(_int(n), _int(e))
    body = _body(public)
    padded = SHA256_INFO + hashlib.sha256(body).digest()
    padded = b"\x00\x01" + b"\xff" * (BITS // 8 - 3 - len(padded)) + b"\x00" + padded
    signed = pow(int.from_bytes(padded, "big"), d, n).to_bytes(BITS // 8, "big")
    certificate_bytes = _seq(body, _algorithm(SHA256_RSA), _der(3, b"\x00" + signed))
    return Certificate(
        _pem(folder / "certificate.pem", "CERTIFICATE", certificate_bytes),
        _pem(folder / "key.pem", "RSA PRIVATE KEY", private),
    )


def _body(public: bytes) -> bytes:
    name = _seq(_der(0x31, _seq(_der(6, COMMON_NAME), _der(12, b"discreet tests"))))
    now = datetime.now(UTC)
    valid = _seq(*(_der(23, f"{now + timedelta(days=days):%y%m%d%H%M%SZ}".encode()) for days in (-1, 2)))
    info = _seq(_algorithm(RSA), _der(3, b"\x00" + public))
    extensions = [
        (SAN, b"", _seq(_der(0x87, bytes((127, 0, 0, 1))), _der(0x82, b"localhost"))),
        (BASIC, _der(1, b"\xff"), _seq(_der(1, b"\xff"))),
        (USAGE, _der(1, b"\xff"), _der(3, b"\x02\x84")),
        (KEY_ID, b"", _der(4, hashlib.sha256(public).digest()[:20])),
    ]
    encoded_extensions = _seq(*(_seq(_der(6, oid), critical, _der(4, value)) for oid, critical, value in extensions))
    serial = _int(secrets.randbits(64) | 1)
    return _seq(
        _der(0xA0, _int(2)), serial, _algorithm(SHA256_RSA), name, valid, name, info, _der(0xA3, encoded_extensions)
    )


def _prime() -> int:
    """A probable prime of half the bits, with its two highest bits set."""
    half = BITS // 2
    while True:
        n = secrets.randbits(half) | 3 << (half - 2) | 1
        if math.gcd(n, SMALL) == 1 and (n - 1) % 65537 and all(_witness(n) for _ in range(8)):
            return n


def _witness(n: int) -> bool:
    """One round of Miller and Rabin."""
    twos = ((n - 1) & -(n - 1)).bit_length() - 1
    x = pow(secrets.randbelow(n - 3) + 2, (n - 1) >> twos, n)
    return x == 1 or any(pow(x, 2**i, n) == n - 1 for i in range(twos))


def _der(tag: int, value: bytes) -> bytes:
    size = len(value)
    long = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag,)) + (bytes((size,)) if size < 128 else bytes((0x80 | len(long),)) + long) + value


def _seq(*parts: bytes) -> bytes:
    return _der(0x30, b"".join(parts))


def _int(number: int) -> bytes:
    return _der(2, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def _algorithm(oid: bytes) -> bytes:
    return _seq(_der(6, oid), _der(5, b""))


def _pem(path: Path, what: str, content: bytes) -> Path:
    lines = base64.encodebytes(content).decode()
    path.write_text(f"-----BEGIN {what}-----\n{lines}-----END {what}-----\n")
    return path
