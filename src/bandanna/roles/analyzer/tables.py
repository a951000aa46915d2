"""The analyzer's tables, beside the ledger's, and the collector's where it has one.

progress   one row: which round of which batch is awaited, the policy's state before it, what the analyzer holds
answers    of the running batch, those of earlier rounds
shares     what mixers have sent of the awaited round: expected -> partial -> released | burned
releases   every publication with its signature and chain, in order, the ledger's last entry before it, and the
           registrar's cosignature: pending (null) -> served; the newest one alone may be pending
"""

from __future__ import annotations

SCHEMA = """
create table progress (
    id {bigint} primary key, task text not null, status text not null, epoch {bigint} not null,
    next_epoch {bigint} not null, round {bigint} not null, state text not null, streams text not null,
    kept text not null, source text not null);
create table answers (epoch {bigint} not null, place {bigint} not null, estimate text not null,
    primary key (epoch, place));
create table shares (
    epoch {bigint} not null, round {bigint} not null, mixer text not null, content text not null,
    primary key (epoch, round, mixer));
create table releases (
    number {bigint} primary key, epoch {bigint} not null, round {bigint} not null, outcome text not null,
    document text not null, signature text not null, chain text not null, digests text not null,
    entries {bigint} not null, cosignature text);
create index releases_of_rounds on releases (epoch, round);  -- receipts are asked for by round
"""
