"""The kinds: a package of pure functions each, one base class, one registry."""
