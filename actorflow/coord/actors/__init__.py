"""The actors that obey the rules of coordination."""
