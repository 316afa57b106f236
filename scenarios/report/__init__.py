"""Reports on runs, campaigns and measurements as self-contained HTML pages."""

from forewarn.scenarios.report.page import write_report

__all__ = ["write_report"]
