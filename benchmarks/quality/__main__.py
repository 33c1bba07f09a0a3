"""See `benchmarks.quality.run`."""

import sys

from benchmarks.quality.run import main

if __name__ == "__main__":
    sys.exit(main())
