"""The one exception type that users meet."""


class JaxschedError(ValueError):
    """Bad input, described in one line: what was found, where, and what is accepted.

    The command line prints the message alone and exits with status 2; scripts catch it like any
    ``ValueError``.
    """
