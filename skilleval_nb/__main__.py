"""`python -m skilleval_nb`: the same as `skilleval`."""

from .cli import main

if __name__ == "__main__":
    main()
