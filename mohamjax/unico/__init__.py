"""UNICO: hardware for a set of networks, by surrogates, rationed mapping search and robustness."""
