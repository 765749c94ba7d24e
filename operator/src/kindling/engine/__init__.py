"""What turns watch events into writes for any kind: store, queue, plan, worker, resync, lease, events."""
