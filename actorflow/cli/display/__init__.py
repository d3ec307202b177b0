"""What commands print: tables, live bars, drawings of graphs."""
