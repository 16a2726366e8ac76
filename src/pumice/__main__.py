"""The command line as ``python -m pumice``."""

from pumice.cli.main import main

if __name__ == "__main__":
    main()
