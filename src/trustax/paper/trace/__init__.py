"""Traces of MCPO: a run recorded update by update."""
