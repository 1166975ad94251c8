"""The paper's tables, with our results beside the paper's."""
