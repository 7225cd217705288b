-- name: outlook
-- What comes next, on the store clock: now, the soonest boundary after now, whether one is
-- due already, and whether a schedule's time is damaged. One row, whatever there is.
-- Carried by schedules_due: four probes, however many schedules there are.
SELECT pg_catalog.statement_timestamp() AS now,
       (SELECT s.next_fire_at
        FROM {schema}.schedules AS s
        WHERE s.paused IS NOT TRUE AND s.quarantine IS NULL
          AND s.next_fire_at > pg_catalog.statement_timestamp()
        ORDER BY s.next_fire_at
        LIMIT 1) AS soonest,
       EXISTS (SELECT 1
               FROM {schema}.schedules AS s
               WHERE s.paused IS NOT TRUE AND s.quarantine IS NULL
                 AND s.next_fire_at <= pg_catalog.statement_timestamp()) AS due,
       EXISTS (SELECT 1
               FROM {schema}.schedules AS s
               WHERE s.paused IS NOT TRUE AND s.quarantine IS NULL
                 AND s.next_fire_at IS NULL)
       OR EXISTS (SELECT 1
                  FROM {schema}.schedules AS s
                  WHERE s.paused IS NOT TRUE AND s.quarantine IS NULL
                    AND s.next_fire_at
                        >= '9999-12-31 23:59:59.999999+00'::timestamp with time zone
       ) AS damaged
