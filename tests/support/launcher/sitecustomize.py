"""Python runs this as it starts, in every process that a test starts: this folder is on its PYTHONPATH."""

import seeded_generator

seeded_generator.follow()
