"""Traces in columns: `forewarn.traces/1`, a folder of Parquet files.

`layout` defines how a trace is stored in columns, `writing` writes and joins the files,
`reading` reads only the requested columns, a few runs at a time.
"""
