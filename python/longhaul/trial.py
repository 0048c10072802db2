"""A process with a loop that another program has pickled: python3 -m longhaul.trial FILE WORDS."""

import pickle
import sys
from pathlib import Path

from longhaul import command

if __name__ == "__main__":
    sys.path[:], loop = pickle.loads(Path(sys.argv[1]).read_bytes())
    try:
        train, score = pickle.loads(loop)
    except Exception as error:
        print(f"longhaul: train cannot be read in another process: {error}", file=sys.stderr)
        sys.exit(2)
    code, _ = command.run(sys.argv[2:], train, score,
                          [sys.executable, "-m", "longhaul.trial", sys.argv[1]])
    sys.exit(code)
