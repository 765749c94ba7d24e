"""What `preview` shows of a change: Pulumi's events read, their impact, and a page in Markdown."""
