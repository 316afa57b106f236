"""Reports: one self-contained HTML page of runs, campaigns and measurements."""

from forewarn.scenarios.report.page import write_report

__all__ = ["write_report"]
