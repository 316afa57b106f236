"""VirtualHome's homes as worlds; needs the extra `virtualhome`."""
