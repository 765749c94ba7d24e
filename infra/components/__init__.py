"""The parts of an environment as Pulumi components, one module each; `infra.program` joins them."""
