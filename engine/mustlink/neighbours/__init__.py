"""Nearest neighbours of points: exact, by parts on disk, by NN-descent; recall measured."""
