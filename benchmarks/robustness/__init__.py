"""What goes wrong: random inputs, counted, and the case in which training for a score is known to collapse."""
