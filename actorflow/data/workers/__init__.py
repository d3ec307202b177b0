"""Functions of the user applied by threads, or by processes of their own."""
