"""What every op is defined with: checks of arguments, spec rules, and errors that name the user's line."""
