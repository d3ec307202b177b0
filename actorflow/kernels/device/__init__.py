"""The devices that kernels run on: threads of the host, and cards."""
