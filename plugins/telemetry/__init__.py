"""What goes on, for those who watch from outside: OpenTelemetry and Prometheus."""

from forewarn.plugins.telemetry.opentelemetry import OpenTelemetry, is_installed
from forewarn.plugins.telemetry.prometheus import PrometheusFile

__all__ = ["OpenTelemetry", "PrometheusFile", "is_installed"]
