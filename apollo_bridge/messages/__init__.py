"""The messages of Apollo that the bridge reads and writes."""
