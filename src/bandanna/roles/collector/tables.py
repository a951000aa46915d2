"""The collector's tables.

plans     a batch as it was announced, until its reports are gone
reports   append-only: what devices sent; the highest version of a place counts; deleted with the batch's receipt
batches   full(closes_at) -> closed(share) -> receipted(receipt), one row for each round of a batch
          dropped: a batch that was announced and never closed; its number is not used again
streams   what mixers hold across batches: sums of batches of higher levels that are not full; and which mixer does
"""

from __future__ import annotations

MIGRATION = """
create table plans (epoch {bigint} primary key, plan text not null);
create table reports (
    id {serial}, epoch {bigint} not null, round {bigint} not null, place {bigint} not null, version {bigint} not null,
    slot {blob} not null, mac {blob} not null, key_id {bigint} not null, body {blob} not null);
create table batches (
    epoch {bigint} not null, round {bigint} not null, state text not null, closes_at {real} not null,
    share text, receipt text, primary key (epoch, round));
create table streams (name text primary key, held text not null);
"""

INSERT = "insert into reports (epoch, round, place, version, slot, mac, key_id, body) values (?, ?, ?, ?, ?, ?, ?, ?)"
