"""What a deployment, or an experiment, looks like: pages rendered on the server, each with a twin for programs.

A page is made of its twin, and its twin of what is public: what an analyzer has signed, what collectors and roles tell
everybody, what a finished experiment has left. `app.py` serves them; everything else works without sockets.
"""
