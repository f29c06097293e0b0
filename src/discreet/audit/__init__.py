"""Black-box lower bounds on epsilon, from draws alone: an audit finds violations and never proves their absence."""

from discreet.audit.auditing import Audit as Audit
from discreet.audit.auditing import audit_mechanism as audit_mechanism
from discreet.audit.worst import audit_worst as audit_worst
