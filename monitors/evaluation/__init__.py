"""The quality of warnings: timeliness, false alarms, calibration, guarantees."""
