"""The steps that a robot can be told to take: words, controller, effects."""
