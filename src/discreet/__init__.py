"""discreet: learn from records about people without learning about any one person.

The names that most people need. The rest is in `discreet.mechanisms`, `discreet.sdc`, `discreet.synthetic`,
`discreet.constraints` and `discreet.verification`. Names are loaded when first used, so `import discreet` stays light.
"""

from discreet._lazy import attach
from discreet._version import __version__ as __version__

__all__, __getattr__, __dir__ = attach(__name__)
