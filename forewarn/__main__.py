"""The entry point of `python -m forewarn`."""

from forewarn.cli import main

main()
