"""Black-box lower bounds on epsilon, from draws alone: an audit finds violations and never proves their absence."""

from discreet.verification.audit.audit import Audit as Audit
from discreet.verification.audit.audit import audit_mechanism as audit_mechanism
from discreet.verification.audit.audit import audit_worst as audit_worst
