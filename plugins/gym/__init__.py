"""The guard as a Gymnasium wrapper; needs the extra `gym`."""
