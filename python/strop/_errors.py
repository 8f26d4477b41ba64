# SPDX-License-Identifier: Apache-2.0
"""The exceptions of Strop: one base, and the built-in that Python users expect."""

from __future__ import annotations


class Error(RuntimeError):
    """Every failure of Strop. The text says who complains, what was wanted and what came.

    It is a RuntimeError, as in ONNX Runtime, and by its cause a built-in exception too: ValueError for a value, shape,
    count, file or model that does not fit, TypeError for an element type or kind of object, KeyError for a name,
    FileNotFoundError, OSError, NotImplementedError, MemoryError, or ArithmeticError for a loss that is not finite. A
    plain Error says that the object is not in a state that allows the call.

    >>> try:
    ...     strop.CheckpointState.load_checkpoint("no_such_file")
    ... except strop.Error as error:
    ...     print(isinstance(error, FileNotFoundError))
    True
    """


class InvalidArgumentError(Error, ValueError):
    """A value, shape or count does not fit."""


class TypeMismatchError(Error, TypeError):
    """An element type or kind of object does not fit."""


class UnknownNameError(Error, KeyError):
    """There is no parameter, property, input or output of that name."""

    # KeyError would show the text in quotes.
    __str__ = Error.__str__


class MissingFileError(Error, FileNotFoundError):
    """There is no such file."""

    __str__ = Error.__str__


class InvalidFileError(Error, ValueError):
    """A file is truncated, damaged, or of another kind."""


class InvalidGraphError(Error, ValueError):
    """A model is malformed."""


class UnsupportedError(Error, NotImplementedError):
    """Strop does not have what the model asks for."""


class FailedStateError(Error):
    """The object is not in a state that allows the call."""


class IoError(Error, OSError):
    """The operating system refused to read or write."""

    __str__ = Error.__str__


class OutOfMemoryError(Error, MemoryError):
    """A limit, or the machine's memory, is exceeded."""


class NonFiniteError(Error, ArithmeticError):
    """A loss is infinite or not a number."""
