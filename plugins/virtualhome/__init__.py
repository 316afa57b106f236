"""VirtualHome environments as worlds; requires the extra `virtualhome`."""
