"""The command ``chexqa``, also as ``python -m chexqa``."""

import sys


def main() -> None:
    """Import the command line and run it; Ctrl-C during the import prints the same message and gives the same exit code
    as during a command.
    """
    try:
        from chexqa.cli import main as command_line

        command_line.main()
    except KeyboardInterrupt:
        sys.stderr.write("stopped: interrupted; run the same command again to continue.\n")
        sys.exit(3)


if __name__ == "__main__":
    main()
