"""The kinds: a room of pure functions each, one contract, one registry."""
