"""How fast everything is, in CPU time: every algorithm beside its floors and other libraries, and what we promise.

python -m benchmarks                      every algorithm and peer; --only, --compare, --page
python -m benchmarks.promises [NAME ...]  what we promise, as ratios of two things measured in one run
"""
