"""ROS 2 without ROS: signals from topics, and an oracle for ROSMonitoring."""
