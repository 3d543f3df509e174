"""Workers for neighbours and jobs: Dask's, on this machine or behind a scheduler (extra `dask`)."""
