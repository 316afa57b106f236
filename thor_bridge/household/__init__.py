"""The embedded household: a symbolic simulator with AI2-THOR's interface."""
