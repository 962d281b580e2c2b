-- Procedures that test_resolve_statements.py calls.
CREATE OR REPLACE PROCEDURE public.commits(b bytea) LANGUAGE plpgsql AS $$
DECLARE
  r real[];
BEGIN
  FOR i IN 1..3 LOOP
    r := dbinfer.predict(b, 'm');
    INSERT INTO public.log VALUES (r[1]);
    COMMIT;
  END LOOP;
END $$;

CREATE OR REPLACE FUNCTION public.changes_and_regrets(b bytea) RETURNS real[] LANGUAGE plpgsql AS $$
DECLARE
  before real[];
  meanwhile real[];
  afterwards real[];
BEGIN
  before := dbinfer.predict(b, 'm');
  BEGIN
    PERFORM dbinfer.activate('m', 2);
    meanwhile := dbinfer.predict(b, 'm');
    RAISE 'regret';
  EXCEPTION WHEN raise_exception THEN
    NULL;
  END;
  afterwards := dbinfer.predict(b, 'm');
  RETURN ARRAY[before[1], meanwhile[1], afterwards[1]];
END $$;
