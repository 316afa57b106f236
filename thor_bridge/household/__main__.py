"""Runs the household as a process."""

import sys

from forewarn.thor_bridge.household.process import main

if __name__ == "__main__":
    sys.exit(main())
