"""Reports on runs, campaigns and measurements as self-contained HTML pages."""
