"""Signals that end a script become an exception, so that its `finally` blocks end its children."""
import contextlib
import signal
import sys

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


holding, held = False, None


@contextlib.contextmanager
def hold():
    """A signal takes effect at the end of the block: Popen has returned the process by then."""
    global holding
    holding = True
    try:
        yield
    finally:
        holding = False
        if held is not None:
            sys.exit(128 + held)


def exit_on_signals():
    """The first of these signals raises SystemExit(128 + its number) in the main thread; those
    after it are ignored. One that was ignored from the start (nohup) stays so."""
    heard = [one for one in ENDING if signal.getsignal(one) != signal.SIG_IGN]

    def stop(number, _):
        global held
        for one in heard:
            signal.signal(one, signal.SIG_IGN)
        if holding:
            held = number
        else:
            sys.exit(128 + number)

    for one in heard:
        signal.signal(one, stop)
