"""``python -m maghub`` (and ``torchrun -m maghub``) is the command ``maghub``."""

from maghub.cli import main

if __name__ == "__main__":
    main()
