"""The sharding of variables: spread by bytes, the same wherever and whenever it is worked out.

The largest goes first, to the shard that has the fewest bytes so far; that is at most 4/3 - 1/(3n) of the
best there is for the fullest of n shards. Variables that are to be together go as one, those with a place
of their own go there. What ties is decided by numbers of variables, by names, and by numbers of shards, in
this order: no hash has a say, so every process comes to the same.

Every shard holds a variable: one that held none would have a word in each update and nothing to say.

Source: Graham, "Bounds on multiprocessing timing anomalies", 1969 (longest processing time first).

Pure: no actor, no array.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from actorflow.errors import ConfigError, PlacementError, pluralise


@dataclass(frozen=True, slots=True)
class Sharding:
    """The variables of each shard, in the order in which they were given, and how many bytes they are."""

    names: tuple[tuple[str, ...], ...]
    nbytes: tuple[int, ...]

    def shard_of(self, name: str) -> int:
        """Returns the shard of a variable; KeyError for a name that is on none."""
        for shard, names in enumerate(self.names):
            if name in names:
                return shard
        raise KeyError(name)


def shard_variables(
    sizes: Mapping[str, int],
    shards: int,
    *,
    fixed: Mapping[str, int] | None = None,
    together: Iterable[Iterable[str]] = (),
) -> Sharding:
    """Returns which variables lie on which of `shards` shards.

    Args:
        sizes: Bytes of each variable, by name.
        shards: How many there are.
        fixed: The shard of those that have to lie on a certain one.
        together: Groups of names that have to lie on one shard; groups that share a name are one.

    Raises:
        ConfigError: for no shard, a size that is negative, or a name that is no variable.
        PlacementError: when some shard would hold nothing, or a group has to be at two places.
    """
    fixed = {} if fixed is None else fixed
    _check(sizes, shards, fixed)
    groups = _groups(sizes, together)
    load = [(0, 0)] * shards  # bytes, variables
    place: dict[str, int] = {}

    def put(group: tuple[str, ...], shard: int) -> None:
        nbytes, count = load[shard]
        load[shard] = nbytes + sum(sizes[name] for name in group), count + len(group)
        place.update(dict.fromkeys(group, shard))

    free = []
    for group in groups:
        shard = _fixed_shard(group, fixed)
        if shard is None:
            free.append(group)
        else:
            put(group, shard)
    for group in sorted(free, key=lambda group: (-sum(sizes[name] for name in group), min(group))):
        put(group, min(range(shards), key=lambda shard: (load[shard], shard)))
    empty = next((shard for shard, (_, count) in enumerate(load) if not count), None)
    if empty is not None:
        _refuse_empty(empty, shards, sizes, groups, fixed)
    names = tuple(tuple(name for name in sizes if place[name] == shard) for shard in range(shards))
    return Sharding(names, tuple(nbytes for nbytes, _ in load))


def check_joint(rule: str, shards: int) -> None:
    """Raises ConfigError for a rule that looks at all variables at once, on more than one shard.

    Args:
        rule: What the optimizer has as `joint`: the name of such a rule in it, or empty.
        shards: How many there are.
    """
    if shards > 1 and rule:
        message = f"{rule} looks at all variables at once, and {shards} shards have some each"
        hint = "train with ps=1, or take a rule that looks at each variable alone"
        if rule == "clip_by_global_norm":
            hint = "train with ps=1, or limit each gradient alone: af.optim.clip_by_norm"
        raise ConfigError(message, hint=hint)


def _check(sizes: Mapping[str, int], shards: int, fixed: Mapping[str, int]) -> None:
    if shards < 1:
        message = f"variables lie on at least 1 shard, got {shards}"
        raise ConfigError(message)
    negative = next((name for name, size in sizes.items() if size < 0), None)
    if negative is not None:
        message = f"sizes are not negative, {negative!r} has {sizes[negative]} bytes"
        raise ConfigError(message)
    for name, shard in fixed.items():
        _check_name(name, sizes)
        if not 0 <= shard < shards:
            message = f"there are shards 0 to {shards - 1}, {name!r} is to lie on {shard}"
            raise ConfigError(message)


def _check_name(name: str, sizes: Mapping[str, int]) -> None:
    if name not in sizes:
        message = f"there is no variable {name!r}; there are {', '.join(sorted(sizes)) or 'none'}"
        raise ConfigError(message)


def _groups(sizes: Mapping[str, int], together: Iterable[Iterable[str]]) -> list[tuple[str, ...]]:
    """The variables in groups that lie on one shard each, in the order of their first names."""
    group_of = {name: [name] for name in sizes}
    for names in together:
        whole: list[str] = []
        for name in names:
            _check_name(name, sizes)
            if group_of[name] is not whole:
                whole.extend(group_of[name])
                for each in group_of[name]:
                    group_of[each] = whole
    groups = []
    for name in sizes:
        if group_of[name]:
            groups.append(tuple(group_of[name]))
            group_of[name].clear()
    return groups


def _fixed_shard(group: tuple[str, ...], fixed: Mapping[str, int]) -> int | None:
    """The shard on which some variable of a group has to lie, so all of it."""
    places = {name: fixed[name] for name in group if name in fixed}
    if len(set(places.values())) > 1:
        one, other = min(places), next(n for n in sorted(places) if places[n] != places[min(places)])
        message = (
            f"{one!r} and {other!r} are to lie on one shard, and on shards {places[one]} and {places[other]}"
        )
        raise PlacementError(message, hint="give both the same device, or do not colocate them")
    return next(iter(places.values()), None)


def _refuse_empty(
    empty: int,
    shards: int,
    sizes: Mapping[str, int],
    groups: list[tuple[str, ...]],
    fixed: Mapping[str, int],
) -> None:
    several = (
        f", {pluralise(len(groups), 'group')} of which each stays together"
        if len(groups) < len(sizes)
        else ""
    )
    where = f", {len(fixed)} of them at a place of their own" if fixed else ""
    message = (
        f"every shard holds a variable, shard {empty} of {shards} would hold none: "
        f"there are {pluralise(len(sizes), 'variable')}{several}{where}"
    )
    hint = (
        f"train with ps={len(groups)} or fewer"
        if len(groups) < shards
        else "leave more of them out of device scopes"
    )
    raise PlacementError(message, hint=hint if groups else None)
