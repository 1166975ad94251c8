"""The MCPO paper: its methods, tasks, experiments, tables and figures."""
