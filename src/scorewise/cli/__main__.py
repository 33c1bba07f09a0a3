"""`python -m scorewise.cli`."""

from scorewise.cli import main

if __name__ == "__main__":
    main()
