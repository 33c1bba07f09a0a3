"""The two experiments of the value-weighted paper, with its split, its rule for errors and a network of its order."""
