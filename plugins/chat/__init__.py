"""Asking a chat model, and asking the same again without it."""

from forewarn.plugins.chat.asking import (
    Chat,
    How,
    Message,
    ModelError,
    Partner,
    Recording,
    Replayed,
    ReplayMismatch,
    Reply,
    Usage,
    prompt_hash,
)

__all__ = [
    "Chat",
    "How",
    "Message",
    "ModelError",
    "Partner",
    "Recording",
    "ReplayMismatch",
    "Replayed",
    "Reply",
    "Usage",
    "prompt_hash",
]
