"""onecopy for other packages: torch, CuPy, Numba, RMM, Ray, vLLM. Uses the core and the formats; imports such a package only in
the module that is named after it."""
