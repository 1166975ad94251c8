"""The paper's tables, ours beside theirs."""
