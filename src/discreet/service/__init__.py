"""The service: many analysts, one custodian, over HTTP. It asks a Custodian and reads no row itself."""
