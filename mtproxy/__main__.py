"""`python -m mtproxy` is the `mtproxy` command."""

import sys

from mtproxy.cli.main import main

sys.exit(main())
