"""What is seen of a scene: the others, people, and what comes of them soon."""
