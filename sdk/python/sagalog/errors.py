"""What an operation raises to say how an attempt failed, and what the package raises itself."""

from datetime import timedelta
from typing import Any, Literal, get_args

Effect = Literal["none", "done_unknown", "in_doubt"]


class Failure(Exception):
    """An attempt failed. Raise Retryable or Refused.

    effect says what may be left of the attempt. "in_doubt" is always safe: the call may still be carried out, so an undo waits until the
    attempt's time is over. "done_unknown" promises that nothing is under way any more, though something may have changed. "none" promises
    that nothing changed and nothing can any more: such a step is not undone, so promise it only if it is certain.

    code is a short word for programs, and detail is what the service answered, as JSON.
    """

    error_class = "retryable"

    def __init__(
        self, message: str, *, code: str = "", detail: Any = None, effect: Effect = "in_doubt", retry_after: timedelta | None = None
    ) -> None:
        super().__init__(message)
        if effect not in get_args(Effect):
            raise ValueError(f"effect is {effect!r}; it must be one of {', '.join(get_args(Effect))}")
        self.code, self.detail, self.effect, self.retry_after = code, detail, effect, retry_after


class Retryable(Failure):
    """Another attempt may succeed, after retry_after if that is given."""


class Refused(Failure):
    """No retry can help: the task goes to its error path at once."""

    error_class = "permanent"


class Unavailable(Failure):
    """The attempt was not made. The package raises it; with effect none the attempt does not count."""

    error_class = "unavailable"


class Internal(Failure):
    """The agent itself failed. The package raises it."""

    error_class = "internal"


class AgentError(Exception):
    """The agent cannot work. The message says why, and what to do."""


class NotSent(Exception):
    """A record was not sent. id is the ID that was given or made for it: of a submission the task's, of a signal or a cancel its own."""

    def __init__(self, message: str, *, id: str) -> None:
        super().__init__(message)
        self.id = id


class NotAcknowledged(NotSent):
    """The brokers did not acknowledge a record in time. It may be in the log all the same: send it again with the same id."""


class Rejected(NotSent):
    """The brokers refused a record, and would refuse it again: it is too large, or this producer may not write it."""
