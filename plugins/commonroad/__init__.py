"""CommonRoad's scenes as recorded drives; nothing has to be installed for it."""
