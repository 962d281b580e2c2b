-- A crash empties the queue, and with it the line that says who has looked at all rows: the next job looks at all of them again.
CREATE UNLOGGED TABLE {queue} AS SELECT {keys} FROM {table} WITH NO DATA;
ALTER TABLE {queue} ADD COLUMN follower pg_catalog.text;
-- Without SET search_path, which would cost each row a fifth more: the body qualifies every name, and its columns have the types of the queue's
CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS {body};
REVOKE ALL ON FUNCTION {function}() FROM PUBLIC;
-- named in the condition, the queue cannot be dropped without the trigger, whose function would fail
CREATE TRIGGER {trigger} AFTER INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW WHEN ({name}::pg_catalog.regclass IS NOT NULL)
  EXECUTE FUNCTION {function}()
