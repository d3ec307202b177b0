"""Messages as headers and raw buffers, and back; nothing that arrives is believed or executed."""
