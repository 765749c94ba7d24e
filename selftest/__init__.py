"""The crash-at-every-write sweep of tests/convergence, on the manifests of whoever uses the operator.

`python3 -m infra selftest FILE...` prepares what it needs, then becomes this; docs/guides/selftest.md is for
its users. It is beside operator and tests, as `bench` is: it starts the operator of this checkout, and takes
cluster, proxy, recorder and database servers from the tests.
"""
