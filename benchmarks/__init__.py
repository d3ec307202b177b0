"""What actorflow costs beside what a user could pick instead: `python -m benchmarks --list`.

A benchmark prints ratios that were measured in one run, ours and the peer's turn about, because a
shared machine has no absolutes. One file a benchmark; each registers itself (`registry`).
"""
