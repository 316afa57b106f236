"""What warnings are worth: in time or not, false alarms, calibration, promises."""
