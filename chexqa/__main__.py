"""The command line as ``python -m chexqa``."""

from chexqa.cli.main import main

if __name__ == "__main__":
    main()
