"""What a PulsarConsumer runs: `python -m pulsar_consumer`, and a sample `pulsar_consumer.producer`."""
