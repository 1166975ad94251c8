"""The MCPO paper: its methods, tasks, tables and figures, made of runs."""
