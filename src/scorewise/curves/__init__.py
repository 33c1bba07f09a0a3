"""Every threshold at once: score curves, the best threshold and how sure it is, and the exact expected score."""

from scorewise.curves.bootstrap import Bootstrap
from scorewise.curves.choice import InfeasibleError
from scorewise.curves.curve import ScoreCurve, best_threshold, score_curve
from scorewise.curves.gap import TheoremGap, theorem_gap

__all__ = ["Bootstrap", "InfeasibleError", "ScoreCurve", "TheoremGap", "best_threshold", "score_curve", "theorem_gap"]
