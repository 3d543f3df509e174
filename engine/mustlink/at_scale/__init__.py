"""Methods on a graph whose rows are on disk or on ranks, by `eigen.work.Work` alone."""
