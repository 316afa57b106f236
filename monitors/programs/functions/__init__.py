"""The functions that every toolbox holds."""
