"""Signals that end a script become an exception, so that its `finally` blocks end its children."""
import signal
import sys

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def exit_on_signals():
    """The first of these signals raises SystemExit(128 + its number) in the main thread; those
    after it are ignored. One that was ignored from the start (nohup) stays so."""
    heard = [one for one in ENDING if signal.getsignal(one) != signal.SIG_IGN]

    def stop(number, _):
        for one in heard:
            signal.signal(one, signal.SIG_IGN)
        sys.exit(128 + number)

    for one in heard:
        signal.signal(one, stop)
