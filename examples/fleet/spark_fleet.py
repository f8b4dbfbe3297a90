"""Asks the records of many jobs with Apache Spark: spark-submit --py-files fleet.py spark_fleet.py RECORDS... [--master MASTER]

RECORDS are files, folders or patterns that every worker can read. Prints the answers as JSON. Needs the package pyspark and Java."""
import argparse
import json

from pyspark.sql import SparkSession

from fleet import COLUMNS, ESTIMATE, questions


def answers(paths, master=None):
    builder = SparkSession.builder.appName("memtrace fleet").config("spark.sql.ansi.enabled", "true")
    spark = (builder.master(master) if master else builder).getOrCreate()
    struct = "STRUCT<%s>" % ", ".join("%s: %s" % row for row in ESTIMATE.items())
    schema = ", ".join("`%s` %s" % row for row in {**COLUMNS, "estimate": struct}.items())
    spark.read.schema(schema).json(paths).createOrReplaceTempView("records")
    found = {name: [row.asDict() for row in spark.sql(sql).collect()] for name, sql in questions().items()}
    spark.stop()
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("records", nargs="+")
    parser.add_argument("--master", help="local[2], local-cluster[2,1,1024], spark://HOST:PORT; without it, what spark-submit says")
    given = parser.parse_args()
    print(json.dumps(answers(given.records, given.master), indent=1))
