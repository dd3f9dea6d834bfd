"""`python -m snug`."""

import sys

_HELP = """\
usage: python -m snug run SCRIPT [ARGUMENT...]
       python -m snug run -m MODULE [ARGUMENT...]
       python -m snug --version | --help

run   Runs a Python program that was written for Theano, as it is: `import theano` finds snug,
      THEANO_FLAGS and .theanorc are read, and names that left NumPy and Python are there.

In a session of your own, snug.install_as_theano() makes `import theano` find snug.
The command line tool `snug` knows more commands: snug --help.
"""


def main(arguments: list[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_HELP, end="")
    elif arguments[0] == "--version":
        import snug

        print("snug", snug.__version__)
    elif arguments[0] != "run":
        print(f"snug: unknown command {arguments[0]!r}\n\n{_HELP}", end="", file=sys.stderr)
        sys.exit(2)
    elif len(arguments) > 2 and arguments[1] == "-m":
        from snug._run import run_module

        run_module(arguments[2], arguments[3:])
    elif len(arguments) == 1 or arguments[1].startswith("-"):
        given = len(arguments) > 1
        if given and arguments[1] in ("-h", "--help"):
            print(_HELP, end="")
            return
        problem = f"unknown option {arguments[1]!r}" if given else "which script?"
        problem = "which module?" if given and arguments[1] == "-m" else problem
        print(f"snug run: {problem}\n  hint  snug run script.py [argument...]", file=sys.stderr)
        sys.exit(2)
    else:
        from snug._run import run

        run(arguments[1], arguments[2:])


main(sys.argv[1:])
