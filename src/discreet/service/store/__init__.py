"""What a service remembers: tokens, grants, who is signed in, priors, answers by id, jobs, counts."""

from discreet.service.store.store import Store as Store
