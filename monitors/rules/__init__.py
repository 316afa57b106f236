"""Rules: interventions for certain actions under certain conditions."""
