"""highway-env's roads as worlds; needs the extra `highway`."""
