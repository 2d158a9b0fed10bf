"""Errors that a user can mend. Everything else that escapes is a fault of ours."""

__all__ = ["InputError"]


class InputError(ValueError):
    """Bad input: one line that names the file, the item and the remedy.

    The command line prints it without a traceback and exits with code 2.

    Args:
        message: What is wrong, without a trailing full stop.
        file: The file or other source that it is in.
        item: The node, layer, key, level or row inside the file.
        remedy: What the user can do about it.
    """

    def __init__(self, message: str, *, file: object = None, item: object = None, remedy: str | None = None) -> None:
        self.message = message
        self.file = None if file is None else str(file)
        self.item = None if item is None else str(item)
        self.remedy = remedy
        where = ": ".join(part for part in (self.file, self.item) if part)
        text = f"{where}: {message}" if where else message
        if remedy:
            text = f"{text}; {remedy}"
        super().__init__(" ".join(text.split()))
