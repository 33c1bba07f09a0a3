"""See `benchmarks.quality.run`."""

from benchmarks.quality.run import main

if __name__ == "__main__":
    main()
