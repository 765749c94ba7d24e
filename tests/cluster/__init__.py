"""On a real cluster: a package, so that its one environment is taken down after the last of its tests."""
