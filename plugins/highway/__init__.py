"""Roads of highway-env as worlds; requires the extra `highway`."""
