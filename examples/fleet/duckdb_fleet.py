"""Asks the records of many jobs on one machine: python3 duckdb_fleet.py RECORDS... [--parquet FILE]

RECORDS are files of `memtrace summarize`, or one Parquet file that --parquet wrote. Prints the answers as JSON. Needs the package duckdb."""
import argparse
import json

import duckdb

from fleet import COLUMNS, ESTIMATE, questions


def answers(paths, parquet=None):
    db = duckdb.connect()
    if paths[0].endswith(".parquet"):
        db.read_parquet(paths).create_view("records")
    else:
        struct = "STRUCT(%s)" % ", ".join("%s %s" % row for row in ESTIMATE.items())
        db.read_json(paths, format="newline_delimited", columns={**COLUMNS, "estimate": struct}).create_view("records")
    if parquet:
        db.sql("SELECT * FROM records ORDER BY run, restart, rank, device").write_parquet(parquet)
    found = {}
    for name, sql in questions().items():
        rows = db.sql(sql)
        found[name] = [dict(zip(rows.columns, row)) for row in rows.fetchall()]
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("records", nargs="+")
    parser.add_argument("--parquet", help="also write the columns of the questions to this file")
    given = parser.parse_args()
    print(json.dumps(answers(given.records, given.parquet), indent=1))
