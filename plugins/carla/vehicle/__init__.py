"""The vehicle itself: what it runs into, and how it is kept on its way."""
