"""The protocol of a link, without sockets, loops or clocks."""
