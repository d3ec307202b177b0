"""Linear algebra: products, factorisations, systems of equations and norms."""
