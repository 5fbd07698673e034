"""``python -m majorica``: the command line, where the program is not on the path."""

from majorica.cli import main

if __name__ == "__main__":
    main()
