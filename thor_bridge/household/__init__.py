"""The embedded household: our own symbolic simulator in AI2-THOR's terms."""
