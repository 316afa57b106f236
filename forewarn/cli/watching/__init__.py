"""Commands that judge recorded traces by laws."""
