"""`python -m forewarn.cli`."""

from forewarn.cli import main

main()
