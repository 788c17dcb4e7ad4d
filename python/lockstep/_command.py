"""The program `lockstep`, which lies beside the library."""
import os
import sys


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "lockstep")
    os.execv(program, ["lockstep", *sys.argv[1:]])
