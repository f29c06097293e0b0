"""The calls of a `Custodian`, over HTTP: for analysts and custodians who use a service."""

from discreet.client.client import Client as Client
