"""A stack as the command line sees it: its configuration and state, the Pulumi that runs it, its checks."""
