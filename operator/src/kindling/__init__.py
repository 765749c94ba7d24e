"""Kindling's operator: keeps the custom resources of a cluster true (run it as `python -m kindling`)."""
