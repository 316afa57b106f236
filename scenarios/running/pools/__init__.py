"""Where the episodes of a campaign run.

`local`: in this process, or in others on this machine. `on_ray`: on a Ray cluster.
"""
