"""Datasets of traces: the format `forewarn.traces/1`, a folder of Parquet files.

`layout` defines how a trace is stored in columns. `writing` writes the files and joins
them. `reading` reads only the requested columns, a few runs at a time.
"""
