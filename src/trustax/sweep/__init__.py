"""Many runs in parallel processes."""
