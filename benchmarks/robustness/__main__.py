"""See `benchmarks.robustness.run`."""

import faulthandler

from benchmarks.robustness.run import main

if __name__ == "__main__":
    faulthandler.enable()  # where it was, if an input ends the process
    main()
