"""Who may come in: rings of keys, the rule for each connection that asks, and an account of who was refused.

Nothing here touches a socket or a file: `zeromq` asks, and obeys.

A **ring** is a list of key pairs that all processes of a cluster hold. The first is the current one: each
process shows it. All of them are let in, so that keys can be changed while a cluster runs: a new one is put
first, and once all have read it the old ones go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from actorflow.errors import ConfigError, pluralise

_Z85 = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#")
_KEY_LENGTH = 40
_MOST_PAIRS = 16
_HEAD = """\
# Keys of an actorflow cluster. Whoever can read this file can join it, and see all that it says.
# The first pair is shown to others; every pair is let in. See `actorflow keys --help`.
"""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A key pair of CURVE, each key as 40 characters of Z85."""

    public: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        for name, key in (("public", self.public), ("secret", self.secret)):
            if len(key) != _KEY_LENGTH or not _Z85.issuperset(key):
                message = (
                    f"a key is {_KEY_LENGTH} characters of Z85, got a {name} one of {len(key)} characters"
                )
                raise ConfigError(message)


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The pairs of a cluster, the current one first."""

    pairs: tuple[KeyPair, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.pairs) <= _MOST_PAIRS:
            message = f"a ring has 1 to {_MOST_PAIRS} pairs of keys, got {len(self.pairs)}"
            raise ConfigError(message, hint="`actorflow keys drop FILE` keeps the newest only")

    @property
    def current(self) -> KeyPair:
        """The pair that is shown."""
        return self.pairs[0]

    @property
    def publics(self) -> tuple[str, ...]:
        """All keys that are let in."""
        return tuple(pair.public for pair in self.pairs)

    def allows(self, public: str, name: str) -> bool:
        """Tells whether who holds that key may speak as the process of that name: any, with a key of ours."""
        return bool(name) and public in self.publics

    def rotate(self, pair: KeyPair) -> KeyRing:
        """Returns the ring with a new current pair; those that were there are still let in."""
        return KeyRing((pair, *self.pairs))

    def drop_old(self) -> KeyRing:
        """Returns the ring with its current pair only."""
        return KeyRing(self.pairs[:1])

    def text(self) -> str:
        """Returns what a file of it holds."""
        return _HEAD + "".join(f"pair {pair.public} {pair.secret}\n" for pair in self.pairs)


def parse(text: str, where: str) -> KeyRing:
    """Returns the ring that a file holds.

    Args:
        text: What the file holds.
        where: Its name, for errors.

    Raises:
        ConfigError: it is none. No secret is told.
    """
    pairs = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0] != "pair" or len(words) != 3:
            got = f"{pluralise(len(words), 'word')} in {where}, line {number}"
            message = f"a line of keys is `pair PUBLIC SECRET`, got {got}"
            raise ConfigError(message, hint="`actorflow keys new FILE` makes such a file")
        try:
            pairs.append(KeyPair(*words[1:]))
        except ConfigError as error:
            message = f"{error.what}, in {where}, line {number}"
            raise ConfigError(message, hint="`actorflow keys new FILE` makes such a file") from None
    if not pairs:
        message = f"a file of keys has a line `pair PUBLIC SECRET`, got none in {where}"
        raise ConfigError(message, hint="`actorflow keys new FILE` makes such a file")
    return KeyRing(tuple(pairs))


def attempts(ring: KeyRing, shown: str | None) -> tuple[tuple[str, KeyPair], ...]:
    """Returns what a process that dials tries, one after the other: a key to expect, and a pair to show.

    Nobody is believed to be of the cluster whose key is not in the ring, whoever told of it: a key that was
    dropped is worth nothing any more.

    Args:
        ring: Of the process that dials.
        shown: The key that the other one is said to show.
    """
    expected = sorted(ring.publics, key=lambda public: public != shown)
    return tuple((public, pair) for pair in ring.pairs for public in expected)


# -- ZAP domains -----------------------------------------------------------------------------------


class ZapDomain(Enum):
    """What an endpoint asks of those who connect to one of its addresses."""

    USER = "user"  # a socket file: the process of the same user
    KEYS = "keys"  # a key of the ring
    OPEN = "open"  # loopback without keys: nothing


class RefusalReason(Enum):
    """Why something was refused."""

    OTHER_USER = "a process of another user"
    NO_KEY = "no key"
    WRONG_KEY = "a key that is not in the ring"
    HANDSHAKE = "a handshake that failed (other keys, none where there are some, or no ZeroMQ)"
    MALFORMED = "what is no datagram"
    UNKNOWN_NAME = "a name that nobody here knows"
    NOT_ITS_NAME = "a name that its key may not bear"
    STRANGER = "the name of a peer that is connected"
    DIALLED = "the name of a peer that this process dials"
    REFUSED_THERE = "our own key, by the process that was dialled"


def judge(
    door: ZapDomain, mechanism: str, address: str, key: str | None, *, ring: KeyRing | None, user: int
) -> RefusalReason | None:
    """Decides about a connection; None lets it in.

    Args:
        door: The domain of the address that it comes to.
        mechanism: How it says who it is: "NULL", "PLAIN" or "CURVE".
        address: Where it comes from: in the domain USER "NAME:uid:gid:pid".
        key: The public key that it has proved to hold the secret of.
        ring: Keys that are let in.
        user: Number of the user who is let in.
    """
    match door:
        case ZapDomain.USER:
            words = address.rsplit(":", 3)
            return None if len(words) == 4 and words[1] == str(user) else RefusalReason.OTHER_USER
        case ZapDomain.KEYS:
            if mechanism != "CURVE" or key is None or ring is None:
                return RefusalReason.NO_KEY
            return None if key in ring.publics else RefusalReason.WRONG_KEY
        case ZapDomain.OPEN:
            return None


# -- the account of refusals -----------------------------------------------------------------------

_NAMELESS, _NAMELESS_S = 8, 5.0
"""So many refusals, and for so many seconds, may come from nobody knows where before that is told: whoever
tries again and again is mostly seen with an address meanwhile, and has one line then."""


class Refusals:
    """Counts what was refused, and tells of each kind from each address once.

    Attributes:
        counts: How often, by reason.
    """

    def __init__(self, now: Callable[[], float], most: int = 256) -> None:
        """Remembers so many addresses; of more it tells nothing, and counts them all the same.

        Args:
            now: Gives the time.
            most: How many addresses.
        """
        self.counts: Counter[RefusalReason] = Counter()
        self._nameless: Counter[RefusalReason] = Counter()
        self._since: dict[RefusalReason, float] = {}  # when the first of these came
        self._now = now
        self._told: set[tuple[RefusalReason, str]] = set()
        self._most = most

    def note(self, refusal: RefusalReason, address: str) -> bool:
        """Counts one; returns whether it is worth a line in the log.

        Where it is not known whence it comes, "", the next one may tell: of that there is a line only when it
        has come some times and for some seconds, and nothing was told of its kind.
        """
        self.counts[refusal] += 1
        if not address:
            self._nameless[refusal] += 1
            since, now = self._since.setdefault(refusal, self._now()), self._now()
            if self._nameless[refusal] < _NAMELESS or now - since < _NAMELESS_S:
                return False
            if any(told is refusal for told, _ in self._told):
                return False
        where = (refusal, address)
        if where in self._told or len(self._told) >= self._most:
            return False
        self._told.add(where)
        return True
