"""See `benchmarks.published.run`."""

import sys

from benchmarks.published.run import main

if __name__ == "__main__":
    sys.exit(main())
