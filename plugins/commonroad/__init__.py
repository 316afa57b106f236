"""CommonRoad scenes as recorded drives; no extra package is needed."""
