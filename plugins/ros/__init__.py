"""Signals from ROS 2 topics, and an oracle for ROSMonitoring; needs no ROS."""
