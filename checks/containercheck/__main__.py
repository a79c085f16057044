"""``python -m containercheck``: the same as the command of that name."""

from containercheck.command.main import main

if __name__ == "__main__":
    main()
