"""Guard requests that need no model: tables and sentences of known forms."""
