"""skilleval_nb: does an agent skill (a SKILL.md) earn its place? A number that can be trusted, in a notebook."""

__version__ = "0.1.0"
