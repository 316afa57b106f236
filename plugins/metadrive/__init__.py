"""MetaDrive's generated roads as worlds; needs the extra `metadrive`."""
