"""Start of `.ci/setup`: puts the package on the path and hands over to `main`."""

import signal
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)
sys.dont_write_bytecode = True

from toolchain.main import main  # noqa: E402  (the path has to be set first)

# Ended from outside as by Ctrl-C: commands that run are ended, half-made folders removed.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
sys.exit(main(sys.argv[1:]))
