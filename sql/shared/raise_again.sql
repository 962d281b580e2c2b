-- The error again, without our statements in its CONTEXT. What the server says of itself (a cancel, a lost segment) passes.
EXCEPTION WHEN data_exception OR syntax_error_or_access_rule_violation OR program_limit_exceeded OR no_data_found
            OR object_not_in_prerequisite_state OR feature_not_supported OR internal_error THEN
  GET STACKED DIAGNOSTICS told = PG_EXCEPTION_DETAIL, hinted = PG_EXCEPTION_HINT;
  IF told OPERATOR(pg_catalog.=) '' THEN
    told := doing;
  END IF;
  IF hinted OPERATOR(pg_catalog.=) '' THEN
    RAISE USING ERRCODE = SQLSTATE, MESSAGE = SQLERRM, DETAIL = told;
  END IF;
  RAISE USING ERRCODE = SQLSTATE, MESSAGE = SQLERRM, DETAIL = told, HINT = hinted;
