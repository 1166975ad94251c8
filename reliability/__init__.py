"""Checks of the reliability that Trustax promises; `python -m reliability` runs them all."""
