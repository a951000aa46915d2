"""Mutants: one wrong factor at a time in what protects people, to see whether some test notices.

    python -m mutants src/bandanna/protocols       `make mutants`: of all that protects people

    sites.py      where a factor can be lost, found in the syntax tree
    reaching.py   which tests reach which function, recorded once
    exchanging.py  tests collected once; a mutant is a fork of that process with another code in a function: quick
    loading.py    a module with another syntax tree than its file's
    running.py    one mutant in a process that loads everything anew, for what is not inside a function
    verdicts.py   what became of every mutant, kept between runs; survivors.toml: those that may survive, and why
    how_we_know.py  writes docs/appendix/evidence.md: theorem, exact test, audit and mutant of every guarantee

A mutant that survives is a fault that no test would have seen.
"""
