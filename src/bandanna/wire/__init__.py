"""What travels between the parties of a deployment: records, tickets, sealed seeds, signed and chained documents.

Public documents are JSON. Reports are binary, of one length for everybody: whoever watches the wire learns from it that
somebody took part, and nothing else. Nothing here knows a policy.
"""
