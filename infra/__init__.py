"""Kindling's host side: the Pulumi program and the programs it drives.

`bootstrap` makes what a machine lacks, `drivers` drive what it has, `settings` reads and checks a stack's
configuration, `resources` and `components` declare it in Pulumi, `cli` is the command line. `bootstrap` and
what the command line does before the virtual environment exists have the standard library alone; import
contracts (pyproject.toml) keep that, and the order of these packages.
"""
