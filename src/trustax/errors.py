"""The one exception that a user's mistake raises."""


class TrustaxError(Exception):
    """What was expected, what came and what to do, in one line.

    The command line prints it without a traceback and leaves with exit code 2.
    """
