"""Rewrites that make a program cheaper and keep its bits."""
