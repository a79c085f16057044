"""Run ``python -m containercheck``, which is the same as the command of that name."""

import containercheck

if __name__ == "__main__":
    containercheck.require_python()
    # Not above: an old Python cannot compile it.
    from containercheck.command.main import main

    main()
