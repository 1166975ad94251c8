"""Checks of reliability that run longer than the tests, which run small parts of them."""
