-- Traps in `public`: functions and operators that a caller without its own `search_path` would run.
-- Each leaves a trace that no rollback removes, and fails.
CREATE SEQUENCE public.caught;
GRANT USAGE ON SEQUENCE public.caught TO PUBLIC;
DO $do$
DECLARE
  body constant text := 'LANGUAGE plpgsql AS $t$ BEGIN
    PERFORM pg_catalog.nextval(''public.caught''); RAISE EXCEPTION ''a function of another role ran''; END $t$';
  lists constant text[] := '{text[],uuid[],int4[],bool[]}';
  f record;
  o record;
BEGIN
  FOR f IN
    SELECT p.proname AS name, pg_get_function_identity_arguments(p.oid) AS arguments, format_type(p.prorettype, NULL) AS result
    FROM pg_proc p JOIN pg_type t ON t.oid = p.prorettype
    WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND NOT p.proretset AND p.provariadic = 0
      AND (t.typtype <> 'p' OR t.typname = 'void') AND p.proargmodes IS NULL
      AND NOT EXISTS (SELECT FROM unnest(p.proargtypes) AS a JOIN pg_type x ON x.oid = a WHERE x.typtype = 'p')
      AND (strpos($source$<source>$source$, p.proname || '(') > 0
        OR p.proname IN ('set_config', 'current_setting', 'to_regclass', 'pg_is_in_recovery', 'pg_notify'))
    UNION ALL SELECT 'cardinality', l, 'integer' FROM unnest(lists) AS l
    UNION ALL VALUES ('array_remove', 'int4[], int4', 'int4[]')
  LOOP
    EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS %s %s', f.name, f.arguments, f.result, body);
  END LOOP;
  FOR o IN
    SELECT x.oprname AS name, x.oprleft::regtype::text AS l, x.oprright::regtype::text AS r, x.oprresult::regtype::text AS result
    FROM pg_operator x
    WHERE x.oprnamespace = 'pg_catalog'::regnamespace AND x.oprname IN ('=', '<>', '<', '>', '<=', '>=', '+', '-', '*', '||')
      AND x.oprleft = ANY ('{text,uuid,int4,int8,bool,timestamptz,interval,float8,numeric,name,oid}'::regtype[])
      AND x.oprright = ANY ('{text,uuid,int4,int8,bool,timestamptz,interval,float8,numeric,name,oid}'::regtype[])
    -- Operators for lists and for mixed types, which the query above does not return.
    UNION ALL SELECT n, l, l, 'bool' FROM unnest(lists) AS l, unnest('{=,<>,&&}'::text[]) AS n
    UNION ALL VALUES ('*', 'int8', 'interval', 'interval'), ('*', 'int4', 'interval', 'interval'), ('*', 'numeric', 'int4', 'numeric')
  LOOP
    EXECUTE format('CREATE OR REPLACE FUNCTION public.%I(%s, %s) RETURNS %s %s', 'trap_' || o.result, o.l, o.r, o.result, body);
    EXECUTE format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.%I)',
      o.name, o.l, o.r, 'trap_' || o.result);
  END LOOP;
END $do$;
