-- Questions about the records of memtrace summarize, in SQL that DuckDB and Apache Spark both read. The table is `records`. A line "name: ..."
-- begins a question, and a line with ";" ends it.

-- name: worst_ranks
-- The ranks with the highest peak of allocated memory.
SELECT run, coalesce(restart, -1) AS restart, coalesce(rank, -1) AS rank, device, host, peak_allocated_bytes, oom_count,
       coalesce(verdict, '') AS verdict
FROM records
ORDER BY peak_allocated_bytes DESC, run, 2, 3, device, host
LIMIT 20
;

-- name: outliers
-- Ranks that differ from those that should need the same: of one run, with one estimate (so of one pipeline stage). The rule is that of report
-- and history: more than five median deviations, than 1 %, and than 2 MiB, the segment of PyTorch's allocator. (The median of an even number of
-- ranks is the mean of the two middle ones here, and the lower of them there.)
WITH grouped AS (
    SELECT *, coalesce(restart, -1) AS attempt, coalesce(estimate.allocated_bytes, -1) AS needed FROM records
), middle AS (
    SELECT run, attempt, needed, median(peak_allocated_bytes) AS median_bytes FROM grouped GROUP BY run, attempt, needed
), distances AS (
    SELECT g.*, m.median_bytes, abs(g.peak_allocated_bytes - m.median_bytes) AS distance
    FROM grouped g JOIN middle m ON g.run = m.run AND g.attempt = m.attempt AND g.needed = m.needed
), spread AS (
    SELECT run, attempt, needed, median(distance) AS deviation_bytes FROM distances GROUP BY run, attempt, needed
)
SELECT d.run, d.attempt AS restart, coalesce(d.rank, -1) AS rank, d.device, d.peak_allocated_bytes,
       CAST(d.median_bytes AS DOUBLE) AS median_bytes, CAST(s.deviation_bytes AS DOUBLE) AS deviation_bytes
FROM distances d JOIN spread s ON d.run = s.run AND d.attempt = s.attempt AND d.needed = s.needed
WHERE d.distance > 5 * s.deviation_bytes AND d.distance > d.median_bytes / 100 AND d.distance > 2097152
ORDER BY d.run, 2, 3, d.device
;

-- name: trend_by_job
-- The peak of each job, day by day: a run counts with its worst rank. A day is that of the run's beginning, since the Unix epoch.
WITH runs AS (
    SELECT config_fingerprint, simulated, run, coalesce(restart, -1) AS attempt, min(start_time_ns) AS began_ns,
           max(peak_allocated_bytes) AS peak_bytes, max(oom_count) AS ooms
    FROM records
    GROUP BY config_fingerprint, simulated, run, coalesce(restart, -1)
)
SELECT config_fingerprint, simulated, CAST(floor(began_ns / 86400000000000) AS BIGINT) AS day, count(*) AS runs,
       CAST(median(peak_bytes) AS DOUBLE) AS median_bytes, max(peak_bytes) AS most_bytes,
       CAST(sum(CASE WHEN ooms > 0 THEN 1 ELSE 0 END) AS BIGINT) AS runs_out_of_memory
FROM runs
GROUP BY config_fingerprint, simulated, CAST(floor(began_ns / 86400000000000) AS BIGINT)
ORDER BY config_fingerprint, simulated, day
;

-- name: prediction_error_by_model
-- How far the estimate was from what ranks used that did not run out of memory, as a share of the estimate.
WITH errors AS (
    SELECT coalesce(model, '') AS model, CAST(peak_allocated_bytes AS DOUBLE) / estimate.allocated_bytes - 1 AS error
    FROM records
    WHERE estimate.allocated_bytes > 0 AND peak_allocated_bytes > 0 AND oom_count = 0
), middle AS (
    SELECT model, median(error) AS median_error FROM errors GROUP BY model
)
SELECT e.model, count(*) AS ranks, m.median_error, median(abs(e.error - m.median_error)) AS deviation, min(e.error) AS least, max(e.error) AS most
FROM errors e JOIN middle m ON e.model = m.model
GROUP BY e.model, m.median_error
ORDER BY e.model
;
