"""What a deployment looks like: pages rendered on the server, each with a twin for programs.

A page is made of its twin, and its twin of what is public: what an analyzer has signed, what collectors and roles tell
everybody. `app.py` serves them; everything else works without sockets.
"""
