"""What this plugin was released as: `infra/distribution/plugin.py` writes this file for a release."""

VERSION = "0.0.0-checkout"
COMMIT = ""
