"""The tests, a package of their own: what is installed beside scorewise may have one of the same name."""
