"""The commands of the command line, one module each: `run` carries one out and returns its exit status."""
