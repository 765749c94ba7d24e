"""The command line: one command from a bare machine to a running environment.

`launcher` runs on the system's Python before anything is installed: it makes the virtual environment and
becomes `python -m infra.cli` in it. An import contract (pyproject.toml) keeps what it and
`commands.doctor_without_packages` import to the standard library.
"""
