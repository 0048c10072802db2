"""A process with a loop that another program has pickled: python3 -m longhaul.trial FILE WORDS."""

import pickle
import sys
from pathlib import Path

if __name__ == "__main__":
    train, score, paths = pickle.loads(Path(sys.argv[1]).read_bytes())
    from longhaul import command

    sys.path[:] = paths
    code, _ = command.run(sys.argv[2:], train, score,
                          [sys.executable, "-m", "longhaul.trial", sys.argv[1]])
    sys.exit(code)
