"""`python -m trustax` is the command line."""

from trustax.cli.main import main

if __name__ == "__main__":
    main()
