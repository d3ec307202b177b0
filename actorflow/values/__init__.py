"""Values and what is known of them: arrays, dtypes, specs, sparse rows, tensor lists and leases."""
