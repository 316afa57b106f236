"""ROS 2 without installing ROS: signals from topics; an oracle for ROSMonitoring."""
