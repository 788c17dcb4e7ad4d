"""The program `lockstep`, which lies beside the library."""
import os
import sys


def program():
    """Its path."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "lockstep")


def main():
    """Becomes the program, with this one's arguments."""
    os.execv(program(), ["lockstep", *sys.argv[1:]])
