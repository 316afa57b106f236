"""Apollo's `.record` files, and the drives that they hold."""
