"""Pairwise constraints propagated over a graph: MF + FM = 2μY (FLI11 eq. 5), F never n × n."""
