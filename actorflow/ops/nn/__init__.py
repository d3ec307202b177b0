"""Ops of neural networks: activations, convolutions, pools, normalisations, attention and losses."""
