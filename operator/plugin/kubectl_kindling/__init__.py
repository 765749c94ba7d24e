"""`kubectl kindling`: what a person asks of Kindling's resources, by way of kubectl.

It runs on a machine that has Python 3.11 and kubectl: it imports the standard library alone, and has no
access to a cluster but kubectl's. `facts`, `screen`, `table`, `redaction` and `failures` decide and are pure;
`kubectl` starts the program, `resources` reads by it, and `commands` has one module for each thing to do.
"""
