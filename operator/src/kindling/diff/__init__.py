"""What this operator would do to everything that runs, decided over a copy that was only read."""
