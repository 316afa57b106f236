"""Generated MetaDrive roads as worlds; requires the extra `metadrive`."""
