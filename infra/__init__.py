"""Kindling's host side: the Pulumi program and the programs it drives.

Everything under `drivers`, `toolchain` and `cli` runs on the standard library alone, because it is
what makes the environment in which anything else can be imported.
"""
