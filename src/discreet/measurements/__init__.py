"""The ways a question can be measured: what each reads, what it costs, and how it is randomized."""
