"""How well methods do on held-out rows of real sets, by the score they were meant for."""
