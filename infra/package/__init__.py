"""The Pulumi package `kindling`: components for programs in any language, which Pulumi runs as a plugin.

Pulumi reads the inputs and outputs from the annotations, so the modules of components have real ones, and not
the strings that `from __future__ import annotations` makes of them.
"""
