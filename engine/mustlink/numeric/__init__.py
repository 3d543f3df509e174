"""Small problems on arrays that everyone has: by LAPACK, with causes where it fails."""
