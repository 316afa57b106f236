"""The message classes, in a descriptor pool of our own.

Apollo's generated classes, or those of `wheelos-msgs`, may live in the same process:
they register in protobuf's default pool, ours never do. What counts between the two
are bytes.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

from forewarn.abstractions.errors import InvalidInput, MissingDependency, near_miss

Edition = Literal[8, 9]
"""Whose messages: 9 is Apollo 9 and later, 8 is Apollo 8 and earlier."""


class Messages:
    """The message classes of one edition of Apollo, by their full names.

    Use `messages(edition)`, which makes each edition once.
    """

    def __init__(self, edition: Edition) -> None:
        try:
            from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        except ImportError as error:
            raise MissingDependency("Apollo's messages", "apollo") from error
        compiled = Path(__file__).with_name(f"edition{edition}.binpb").read_bytes()
        files = descriptor_pb2.FileDescriptorSet.FromString(compiled).file
        self.edition = edition
        pool = descriptor_pool.DescriptorPool()
        self._classes: dict[str, Any] = {}
        for file in files:
            pool.AddSerializedFile(file.SerializeToString())
        for file in files:
            for message in file.message_type:
                name = f"{file.package}.{message.name}"
                descriptor = pool.FindMessageTypeByName(name)
                self._classes[name] = message_factory.GetMessageClass(descriptor)

    @property
    def names(self) -> list[str]:
        """The full names of all messages that are not nested in another."""
        return list(self._classes)

    def __contains__(self, name: str) -> bool:
        return name in self._classes

    def __getitem__(self, name: str) -> Any:
        """The class of that full name, such as `apollo.canbus.Chassis`."""
        try:
            return self._classes[name]
        except KeyError:
            raise InvalidInput(
                f"Apollo {self.edition} has no message {name!r:.80} that we know",
                mend=near_miss(name, self._classes),
            ) from None


def descriptor_files(message_type: Any) -> list[bytes]:
    """The files that define a message class, those first that others import."""
    files: dict[str, bytes] = {}

    def add(file: Any) -> None:
        if file.name not in files:
            for other in file.dependencies:
                add(other)
            files[file.name] = file.serialized_pb

    add(message_type.DESCRIPTOR.file)
    return list(files.values())


def messages(edition: Edition = 9) -> Messages:
    """The message classes of that edition, the same ones each time.

    Raises:
        MissingDependency: protobuf is not installed.
    """
    return _made(edition)


@cache  # which takes `messages()` and `messages(9)` for two things
def _made(edition: Edition) -> Messages:
    return Messages(edition)
