"""What the robot and other cameras see."""
