"""`python -m forewarn`."""

from forewarn.cli import main

main()
