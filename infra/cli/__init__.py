"""The command line: one command from a bare machine to a running environment.

It runs on the system's Python before anything is installed, so it imports the standard library and this
package's own stdlib-only parts; what needs more is called as a program of the environment it made.
"""
