"""The entry point of `python -m forewarn.cli`."""

from forewarn.cli import main

main()
