"""The embedded household: our own symbolic simulator with AI2-THOR's interface."""
